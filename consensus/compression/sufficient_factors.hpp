// Gradients of dense layers that travel as what they are the product of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/range.hpp"
#include "consensus/compression/power_sgd.hpp"

namespace gv {

/// The weights of a dense layer in a gradient, outputs x inputs.
struct DensePlace {
  MatrixPlace place;
  std::size_t rows_per_sample = 1;  ///< Each an input to the layer.
};

/// Sufficient factors (Xie et al. 2014): the gradient of a dense layer is dW = sum_r dy_r^T x_r
/// over the rows of a batch, so whoever has every dy_r and x_r has dW, and nothing is lost. Over
/// all samples S of an operation they are S (outputs + inputs) numbers, which everybody gets from
/// those who have them, in the place of outputs x inputs ones, which are summed: half the bytes for
/// the same number. A layer's travel so where there are no more of them than there are weights.
///
/// What travels is a vector: the factors, rank by rank, and behind them the rest of the gradient.
/// Pure.
class SufficientFactors {
 public:
  /// For a gradient of so many elements in which these weights lie, ascending and disjoint, and
  /// with so many samples of each rank.
  SufficientFactors(std::size_t elements, std::span<const DensePlace> layers,
                    std::vector<std::uint32_t> shares);

  /// Offsets of those weights that travel as factors.
  const std::vector<std::size_t>& weights() const { return weights_; }
  /// Which elements of the vector each rank has factors in; no ranges if there are none.
  const std::vector<Range>& parts() const { return parts_; }
  /// Of the vector; no larger than the gradient.
  std::size_t size() const { return factors_ + rest_; }

  /// Writes what that rank has to a vector: its factors, and the rest. In `gradient` the factors
  /// lie at the places of their weights, dy (rows, outputs) and behind it x (rows, inputs).
  void pack(std::span<const float> gradient, std::size_t rank, std::span<float> vector) const;

  /// The gradient over all samples, from the factors of all and the mean of the rest by samples.
  /// Loops run in one order, so equal vectors give equal bits on all machines.
  void unpack(std::span<const float> vector, std::span<float> gradient) const;

 private:
  template <class Copy>
  void for_rest(Copy copy) const;
  std::size_t rows(const DensePlace& layer, std::size_t rank) const;

  std::size_t elements_;
  std::vector<DensePlace> layers_;  ///< Whose factors travel.
  std::vector<std::uint32_t> shares_;
  std::uint64_t samples_ = 0;
  std::vector<std::size_t> weights_;
  std::vector<Range> parts_;
  std::size_t factors_ = 0;  ///< Elements of all parts.
  std::size_t rest_ = 0;
};

}  // namespace gv
