// Strips of images, and which rows they read.
#include "train/layers/cut_rows.hpp"

#include <algorithm>
#include <limits>

#include "base/check.hpp"
#include "base/rng.hpp"

namespace gv {
namespace {

bool slides_over_rows(LayerKind kind) {
  return kind == LayerKind::conv2d || kind == LayerKind::max_pool || kind == LayerKind::avg_pool;
}

/// Calls visit(offset in the strip, offset in the padded strip) for each row of each plane.
template <class Visit>
void each_row(const LayerPlan& strip, const RowsRead& read, std::size_t width, std::size_t padding,
              std::size_t batch, Visit visit) {
  const std::size_t height = strip.in[1];
  for (std::size_t plane = 0; plane < batch * strip.in[0]; ++plane) {
    for (std::size_t row = 0; row < read.rows.size(); ++row) {
      const std::size_t place = plane * height + read.zeros_above + row;
      visit((plane * read.rows.size() + row) * width, place * strip.in[2] + padding);
    }
  }
}

}  // namespace

RowsRead rows_read(const LayerPlan& layer, const Range& outputs) {
  check(slides_over_rows(layer.spec.kind), "windows slide over rows");
  if (outputs.empty()) return {};
  const std::size_t padding = layer.spec.padding;
  const std::size_t height = layer.in[1];
  // Counted from the first row of padding.
  const std::size_t begin = outputs.begin * layer.spec.stride;
  const std::size_t end = (outputs.end - 1) * layer.spec.stride + layer.spec.kernel;
  RowsRead read{.zeros_above = std::min(end, padding) - std::min(begin, padding)};
  const std::size_t last = padding + height;
  read.zeros_below = std::max(end, last) - std::max(begin, last);
  read.rows.begin = std::clamp(begin, padding, last) - padding;
  read.rows.end = std::clamp(end, padding, last) - padding;
  return read;
}

std::vector<RowTransfer> row_transfers(const LayerPlan& layer, std::span<const Range> owned,
                                       std::span<const Range> outputs) {
  check(owned.size() == outputs.size(), "every member owns rows and computes rows");
  std::vector<RowTransfer> transfers;
  for (std::size_t to = 0; to < outputs.size(); ++to) {
    const Range reads = rows_read(layer, outputs[to]).rows;
    for (std::size_t from = 0; from < owned.size(); ++from) {
      const Range both{std::max(reads.begin, owned[from].begin),
                       std::min(reads.end, owned[from].end)};
      if (from != to && both.begin < both.end) transfers.push_back({from, to, both});
    }
  }
  return transfers;
}

template <class T>
CutRows<T>::CutRows(const LayerPlan& layer, Range outputs)
    : whole_(layer), read_(rows_read(layer, outputs)), strip_(layer) {
  check(outputs.end <= layer.out[1], "a strip has rows of the output");
  strip_.spec.padding = 0;
  strip_.in[1] = read_.zeros_above + read_.rows.size() + read_.zeros_below;
  strip_.in[2] = layer.in[2] + 2 * layer.spec.padding;
  strip_.out[1] = outputs.size();
  if (!outputs.empty()) layer_ = make_layer<T>(strip_);
}

template <class T>
void CutRows<T>::forward(const T* parameters, const T* in, T* out, std::size_t batch) {
  if (layer_ == nullptr) return;
  const std::size_t width = whole_.in[2];
  // Padding is never the largest value of a window.
  const bool is_max = whole_.spec.kind == LayerKind::max_pool;
  padded_.assign(batch * elements(strip_.in), is_max ? std::numeric_limits<T>::lowest() : T(0));
  each_row(strip_, read_, width, whole_.spec.padding, batch, [&](std::size_t own, std::size_t at) {
    std::copy_n(in + own, width, padded_.data() + at);
  });
  out_.resize(batch * elements(strip_.out));
  Rng unused(0);
  layer_->forward(parameters, padded_.data(), out_.data(), batch, true, unused);
  std::ranges::copy(out_, out);
}

template <class T>
void CutRows<T>::backward_input(const T* parameters, const T* d_out, T* d_in, std::size_t batch) {
  if (layer_ == nullptr) return;
  const std::size_t width = whole_.in[2];
  d_padded_.resize(padded_.size());
  layer_->backward_input(parameters, padded_.data(), out_.data(), d_out, d_padded_.data(), batch);
  each_row(strip_, read_, width, whole_.spec.padding, batch, [&](std::size_t own, std::size_t at) {
    std::copy_n(d_padded_.data() + at, width, d_in + own);
  });
}

template <class T>
void CutRows<T>::backward_weight(const T* parameters, const T* d_out, T* d_parameters,
                                 std::size_t batch) {
  if (layer_ == nullptr) {
    std::fill(d_parameters + whole_.begin, d_parameters + whole_.end, T(0));
    return;
  }
  layer_->backward_weight(parameters, padded_.data(), out_.data(), d_out, d_parameters, batch);
}

template class CutRows<float>;
template class CutRows<double>;

}  // namespace gv
