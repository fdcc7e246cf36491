// One member's strip of a convolution, a pool or an activation whose images several peers share by
// rows.
#pragma once

#include <cstddef>
#include <memory>

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

/// One member's strip of a layer: `outputs`, some rows of every image. Weights are whole at every
/// member, and their gradients are to be summed over all of them. Inputs are the rows rows_read()
/// (batch, C, rows, W), and backward_input() computes this strip's summand of their gradient. A
/// window is computed by one member alone, so the winners of a maximum are those of the whole
/// image. The layer is a conv2d, a pool, or one that acts on each value (is_of_each_value).
template <class T>
std::unique_ptr<Layer<T>> make_rows_part(const LayerPlan& layer, const Range& outputs);

}  // namespace gv
