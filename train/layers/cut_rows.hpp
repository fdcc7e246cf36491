// One member's strip of layers, for layers that several peers share by rows of images.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/range.hpp"
#include "train/layers/layer.hpp"

namespace gv {

/// The input rows from which some output rows are computed.
struct RowsRead {
  Range rows;                   ///< The rows inside the image.
  std::size_t zeros_above = 0;  ///< Rows of zero padding above `rows`.
  std::size_t zeros_below = 0;

  friend bool operator==(const RowsRead&, const RowsRead&) = default;
};

/// True for layers with windows that move over the rows of images.
bool slides_over_rows(LayerKind kind);

/// Returns the input rows that output rows [a, z) need: [a s - p, (z - 1) s - p + k) for a window
/// of k rows with stride s and padding p. An empty range needs none.
RowsRead rows_read(const LayerPlan& layer, const Range& outputs);

/// True if a member can compute its strip of the layer together with the layers before it, from the
/// inputs of those layers alone. The layer must act on each value separately, or be a pool without
/// padding.
bool follows_in_strip(const LayerPlan& layer);

/// Returns the input rows of the first layer that are needed for rows `outputs` of the last layer.
/// Each layer except the first must satisfy follows_in_strip().
Range rows_read_by(std::span<const LayerPlan> layers, const Range& outputs);

/// Makes one member's strip of layers: rows `outputs` of every image. Every member has all of
/// the weights, and their gradients must be summed over all members. The input consists of the rows
/// that rows_read_by() returns, in the shape (batch, C, rows, W), and backward_input() computes
/// this strip's summand of the input's gradient. Between two of the layers, two members may both
/// compute the same row. Each window of the last layer is computed by one member alone, so each
/// member gets its own part of the gradient of such a row. The first layer must be a conv2d, a
/// pool, or one that acts on each value (is_of_each_value), and the others must satisfy
/// follows_in_strip(). A dropout must be the only layer of its part, because it draws for the rows
/// of all members. All calls must be for `batch` samples.
template <class T>
std::unique_ptr<Layer<T>> make_rows_part(std::span<const LayerPlan> layers, const Range& outputs,
                                         std::size_t batch);

}  // namespace gv
