// Copies rows between strips and sums.
#include "train/layers/strips.hpp"

#include <utility>

namespace gv {

StripEdges::StripEdges(std::size_t channels, std::size_t width, Range own, Range reads,
                       std::vector<Range> edges)
    : channels_(channels), width_(width), own_(own), reads_(reads), edges_(std::move(edges)) {}

template <class Use>
void StripEdges::each_edge(std::size_t batch, const Use& use) const {
  std::size_t offset = 0;
  for (std::size_t edge = 0; edge < edges_.size(); ++edge) {
    use(edge, offset);
    offset += batch * channels_ * edges_[edge].size() * width_;
  }
}

std::size_t StripEdges::floats(std::size_t batch) const {
  std::size_t rows = 0;
  for (const Range& edge : edges_) rows += edge.size();
  return std::max<std::size_t>(1, batch * channels_ * rows * width_);
}

std::vector<Range> StripEdges::first_here(std::size_t edge) const {
  // Edges are in ascending order. So the rows of this edge that come before the largest end of the
  // earlier edges are also in one of those edges.
  Range unseen{0, edges_[edge].end};
  for (std::size_t i = 0; i < edge; ++i) unseen.begin = std::max(unseen.begin, edges_[i].end);
  const Range inside = common_rows(common_rows(reads_, edges_[edge]), unseen);
  return {common_rows(inside, {0, own_.begin}), common_rows(inside, {own_.end, inside.end})};
}

template <class T>
void StripEdges::give(const T* own, T* summand, std::size_t batch) const {
  each_edge(batch, [&](std::size_t edge, std::size_t offset) {
    copy_rows(own, own_, summand + offset, edges_[edge], batch * channels_, width_);
  });
}

template <class T>
void StripEdges::take(const T* own, const T* sum, T* read, std::size_t batch) const {
  each_edge(batch, [&](std::size_t edge, std::size_t offset) {
    copy_rows(sum + offset, edges_[edge], read, reads_, batch * channels_, width_);
  });
  copy_rows(own, own_, read, reads_, batch * channels_, width_);
}

template <class T>
void StripEdges::give_back(const T* d_read, T* summand, std::size_t batch) const {
  each_edge(batch, [&](std::size_t edge, std::size_t offset) {
    for (const Range& rows : first_here(edge)) {
      each_row(reads_, edges_[edge], rows, batch * channels_, width_,
               [&](std::size_t from, std::size_t to) {
                 std::copy_n(d_read + from, width_, summand + offset + to);
               });
    }
  });
}

template <class T>
void StripEdges::take_back(const T* d_read, const T* sum, T* d_own, std::size_t batch) const {
  const std::size_t planes = batch * channels_;
  std::fill_n(d_own, planes * own_.size() * width_, T(0));
  copy_rows(d_read, reads_, d_own, own_, planes, width_);
  each_edge(batch, [&](std::size_t edge, std::size_t offset) {
    each_row(edges_[edge], own_, common_rows(edges_[edge], own_), planes, width_,
             [&](std::size_t from, std::size_t to) {
               for (std::size_t i = 0; i < width_; ++i) d_own[to + i] += sum[offset + from + i];
             });
  });
}

template void StripEdges::give(const float*, float*, std::size_t) const;
template void StripEdges::give(const double*, double*, std::size_t) const;
template void StripEdges::take(const float*, const float*, float*, std::size_t) const;
template void StripEdges::take(const double*, const double*, double*, std::size_t) const;
template void StripEdges::give_back(const float*, float*, std::size_t) const;
template void StripEdges::give_back(const double*, double*, std::size_t) const;
template void StripEdges::take_back(const float*, const float*, float*, std::size_t) const;
template void StripEdges::take_back(const double*, const double*, double*, std::size_t) const;

}  // namespace gv
