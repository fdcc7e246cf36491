// One member's strip of a convolution, of pools, activations and dropout whose images several peers
// share by rows.
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
  std::size_t zeros_above = 0;  ///< Rows of padding above them.
  std::size_t zeros_below = 0;

  friend bool operator==(const RowsRead&, const RowsRead&) = default;
};

/// True for layers with windows that move over the rows of images.
bool slides_over_rows(LayerKind kind);

/// For outputs [a, z) of a window of k rows with stride s and padding p: rows [a s - p, (z - 1) s -
/// p + k). Nothing is read for an empty range.
RowsRead rows_read(const LayerPlan& layer, const Range& outputs);

/// True if a member can compute its strip of the layer together with the layers before it, from
/// their inputs alone: the layer acts on each value, or is a pool without padding.
bool follows_in_strip(const LayerPlan& layer);

/// The input rows of the first layer from which rows of the last one's outputs are computed. Each
/// layer but the first follows_in_strip().
Range rows_read_by(std::span<const LayerPlan> layers, const Range& outputs);

/// One member's strip of layers: `outputs`, some rows of every image. Weights are whole at every
/// member, and their gradients are to be summed over all of them. Inputs are the rows
/// rows_read_by() (batch, C, rows, W), and backward_input() computes this strip's summand of their
/// gradient. Two members may both compute a row between two of the layers. A window of the last
/// layer is computed by one member alone, so each gets its part of the gradient of such a row. The
/// first layer is a conv2d, a pool, or one that acts on each value (is_of_each_value), and the
/// others follow_in_strip(). A dropout is the only one of its part, because it draws for rows of
/// all members. The calls are always for `batch` samples.
template <class T>
std::unique_ptr<Layer<T>> make_rows_part(std::span<const LayerPlan> layers, const Range& outputs,
                                         std::size_t batch);

}  // namespace gv
