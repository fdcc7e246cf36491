// Sufficient factors: sends a dense layer's gradient as two matrices instead of their product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/range.hpp"
#include "consensus/compression/power_sgd.hpp"

namespace gv {

/// The place of a dense layer's weights in a gradient, outputs x inputs.
struct DensePlace {
  MatrixPlace place;
  std::size_t rows_per_sample = 1;  ///< Number of rows of inputs that one sample gives the layer.
};

/// Sufficient factors (Xie et al. 2014). The gradient of a dense layer is dW = sum_r dy_r^T x_r
/// over the rows of a batch, so a peer that has every dy_r and x_r can compute dW exactly. For the
/// S samples of a collective the factors are S (outputs + inputs) numbers, which are gathered. They
/// replace the outputs x inputs numbers of dW, which would be summed. Gathering sends half as many
/// bytes as summing the same count of numbers. A layer is sent as factors if the factors have no
/// more numbers than the layer has weights.
///
/// The vector that is sent begins with the factors, rank by rank. The rest of the gradient follows.
/// Pure.
class SufficientFactors {
 public:
  /// `elements` is the size of a gradient, which contains the weights of `layers`. The layers are
  /// ascending and disjoint. `shares` has the number of samples of each rank.
  SufficientFactors(std::size_t elements, std::span<const DensePlace> layers,
                    std::vector<std::uint32_t> shares);

  /// Offsets of the weights that are sent as factors.
  const std::vector<std::size_t>& weights() const { return weights_; }
  /// The range of the vector that holds each rank's factors. Empty if there are no factors.
  const std::vector<Range>& parts() const { return parts_; }
  /// Size of the vector, at most the size of the gradient.
  std::size_t size() const { return factors_ + rest_; }

  /// Writes the factors of `rank` and the rest of the gradient into the vector. In `gradient` the
  /// factors must be in the place of the weights: dy (rows, outputs), then x (rows, inputs).
  void pack(std::span<const float> gradient, std::size_t rank, std::span<float> vector) const;

  /// Computes the gradient over all samples from the factors of all ranks and from the rest, which
  /// is already a mean over samples. Loops run in a fixed order, so equal vectors give equal bits
  /// on all machines.
  void unpack(std::span<const float> vector, std::span<float> gradient) const;

 private:
  template <class Copy>
  void for_rest(Copy copy) const;
  std::size_t rows(const DensePlace& layer, std::size_t rank) const;

  std::size_t elements_;
  std::vector<DensePlace> layers_;  ///< The layers that are sent as factors.
  std::vector<std::uint32_t> shares_;
  std::uint64_t samples_ = 0;
  std::vector<std::size_t> weights_;
  std::vector<Range> parts_;
  std::size_t factors_ = 0;  ///< Number of elements in the factors of all ranks.
  std::size_t rest_ = 0;
};

}  // namespace gv
