// One member's strip of a convolution or a pool whose images several peers share by rows.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

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

/// For outputs [a, z) of a window of k rows with stride s and padding p: rows [a s - p, (z - 1) s -
/// p + k). Nothing is read for an empty range.
RowsRead rows_read(const LayerPlan& layer, const Range& outputs);

/// Rows that the member with strip `from` sends to the member with strip `to`. Strips are numbered
/// in the order of their rows.
struct RowTransfer {
  std::size_t from = 0;
  std::size_t to = 0;
  Range rows;  ///< Rows of the whole image.

  friend bool operator==(const RowTransfer&, const RowTransfer&) = default;
};

/// The halo exchange before a layer: every row that one member reads and another owns. The owners
/// of the input rows and the output rows of each strip are given. A strip may be empty, and if a
/// strip is shorter than a halo, its neighbour reads rows of a member further away. Backward, the
/// gradients of the same rows go the other way, and their owners add them in the order of strips.
std::vector<RowTransfer> row_transfers(const LayerPlan& layer, std::span<const Range> owned,
                                       std::span<const Range> outputs);

/// One member's strip of the layer. Weights are whole at every member, and their gradients are to
/// be summed over all of them. A window is computed by one member alone, so the winners of a
/// maximum are those of the whole image. T is float or double.
template <class T>
class CutRows {
 public:
  /// `layer` is a conv2d, max_pool or avg_pool, and `outputs` the rows of this strip.
  CutRows(const LayerPlan& layer, Range outputs);

  /// The rows that forward() needs, its own and others'.
  const Range& reads() const { return read_.rows; }

  /// `in` (batch, C, reads, W), `out` (batch, C', outputs, W'). `parameters` is the model's flat
  /// vector.
  void forward(const T* parameters, const T* in, T* out, std::size_t batch);
  /// `d_in` (batch, C, reads, W) is this strip's summand of the gradient of these rows.
  void backward_input(const T* parameters, const T* d_out, T* d_in, std::size_t batch);
  /// Overwrites the layer's part of `d_parameters` by this strip's summand. Call it after
  /// backward_input(), with the same arguments.
  void backward_weight(const T* parameters, const T* d_out, T* d_parameters, std::size_t batch);

 private:
  LayerPlan whole_;
  RowsRead read_;
  LayerPlan strip_;  ///< The strip with its padding zeros, as a layer without padding.
  std::unique_ptr<Layer<T>> layer_;
  std::vector<T> padded_;
  std::vector<T> d_padded_;
  std::vector<T> out_;
};

}  // namespace gv
