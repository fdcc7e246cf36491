// Rows of images in memory, and the rows at the edges of strips, which members of a group exchange.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/range.hpp"
#include "train/spec.hpp"

namespace gv {

/// The rows that are in both ranges.
inline Range common_rows(const Range& a, const Range& b) {
  const std::size_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

/// Calls use(offset in array `a`, offset in array `b`) for each row of `rows` in each plane. The
/// planes of `a` have the rows `in_a`, and the planes of `b` have the rows `in_b`.
template <class Use>
void each_row(const Range& in_a, const Range& in_b, const Range& rows, std::size_t planes,
              std::size_t width, const Use& use) {
  for (std::size_t plane = 0; plane < planes; ++plane) {
    for (std::size_t row = rows.begin; row < rows.end; ++row) {
      use((plane * in_a.size() + row - in_a.begin) * width,
          (plane * in_b.size() + row - in_b.begin) * width);
    }
  }
}

/// Copies the rows that both arrays have, from an array (planes, from_rows, width) to an array
/// (planes, to_rows, width).
template <class T>
void copy_rows(const T* from, const Range& from_rows, T* to, const Range& to_rows,
               std::size_t planes, std::size_t width) {
  each_row(from_rows, to_rows, common_rows(from_rows, to_rows), planes, width,
           [&](std::size_t a, std::size_t b) { std::copy_n(from + a, width, to + b); });
}

/// Exchanges the rows that members read beyond their own strips, as a sum over all members. The sum
/// contains an array (planes, rows, width) for each cut between two strips. In the forward pass,
/// the owner of a row adds the row, and the other members add nothing. In the backward pass, each
/// reader of a row adds its gradient of the row, and the owner takes the sum. Where strips are
/// shorter than the edges, edges of several cuts have the same rows. Such a row is added to all of
/// these edges in the forward pass, and only to the first one in the backward pass.
class StripEdges {
 public:
  /// Images have `channels` planes of rows of `width` values. The member owns the rows `own` and
  /// reads `reads`. `edges` are the rows of each cut.
  StripEdges(std::size_t channels, std::size_t width, Range own, Range reads,
             std::vector<Range> edges);

  /// The number of floats in the sum, which is never 0.
  std::size_t floats(std::size_t batch) const;

  /// Writes our summand of the forward pass to `summand`, which must hold zeros. `own` is our
  /// strip.
  template <class T>
  void give(const T* own, T* summand, std::size_t batch) const;
  /// Writes the rows that we read to `read`, from our strip and the sum.
  template <class T>
  void take(const T* own, const T* sum, T* read, std::size_t batch) const;
  /// Writes our summand of the backward pass to `summand`, which must hold zeros. `d_read` is the
  /// gradient of the rows that we read.
  template <class T>
  void give_back(const T* d_read, T* summand, std::size_t batch) const;
  /// Writes the gradient of our strip to `d_own`.
  template <class T>
  void take_back(const T* d_read, const T* sum, T* d_own, std::size_t batch) const;

 private:
  /// Calls use(edge, its offset in the sum) for every cut.
  template <class Use>
  void each_edge(std::size_t batch, const Use& use) const;
  /// The rows of this edge that we read and do not own, except rows that are also in an earlier
  /// edge.
  std::vector<Range> first_here(std::size_t edge) const;

  std::size_t channels_;
  std::size_t width_;
  Range own_;
  Range reads_;
  std::vector<Range> edges_;
};

}  // namespace gv
