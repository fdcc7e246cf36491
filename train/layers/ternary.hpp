// Ternary weight networks (Li 2016): a model computes with matrices of -a, 0 and a, and training
// changes the floats behind them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/range.hpp"
#include "train/layers/network.hpp"
#include "train/learner/layout.hpp"

namespace gv {

/// True for a tensor of this name and shape that is a weight matrix of a layer: of a dense layer,
/// a convolution, the projections of attention or the gates of an LSTM. Biases, gains, statistics,
/// tables of embeddings and centres of clusters are none.
bool is_weight_matrix(std::string_view name, std::span<const std::size_t> shape);

/// The place of each weight matrix in the flat vector, ascending.
std::vector<Range> weight_matrices(const Layout& layout);

/// The one scale and the one threshold of a matrix (Li 2016, section 2).
struct TernaryForm {
  /// Weights of at most this magnitude become 0: 0.7 times the mean magnitude, the best threshold
  /// within a few percent for weights that are uniformly or normally distributed.
  float threshold = 0;
  /// The mean magnitude of the other weights, which become plus or minus this. No other scale is
  /// nearer to the weights in the sum of squares.
  float scale = 0;
};

/// The form of one matrix; zeros if all its weights are 0. The threshold is not finite if a weight
/// is not.
TernaryForm ternary_form(std::span<const float> weights);

/// Writes the ternary values of one matrix to `out`, which has its size and may be its own memory.
/// A matrix that is ternary already stays as it is. So does one with a weight that is not finite:
/// a model that has diverged must not look sound.
void make_ternary(std::span<const float> weights, std::span<float> out);

/// A network that gives `inner`, which has this layout, ternary matrices in place of those it is
/// called with. The gradient is that at the ternary weights, as if they were the parameters. Keeps
/// a copy of all parameters.
std::unique_ptr<Network<float>> make_ternary_network(std::unique_ptr<Network<float>> inner,
                                                     const Layout& layout);

}  // namespace gv
