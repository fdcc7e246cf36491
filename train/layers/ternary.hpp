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

/// True if a tensor with this name and shape is a weight matrix: of a dense layer, a convolution,
/// an attention's projections or an LSTM's gates. Biases, gains, statistics, tables of embeddings
/// and centres of clusters are not weight matrices.
bool is_weight_matrix(std::string_view name, std::span<const std::size_t> shape);

/// The place of each weight matrix in the flat vector, ascending.
std::vector<Range> weight_matrices(const Layout& layout);

/// The scale and the threshold of one matrix (Li 2016, section 2).
struct TernaryForm {
  /// Weights of at most this magnitude become 0. It is 0.7 times the mean magnitude, which is
  /// within a few percent of the best threshold for uniformly or normally distributed weights.
  float threshold = 0;
  /// The mean magnitude of the weights above `threshold`, which become plus or minus this value. It
  /// is the scale with the smallest sum of squared errors.
  float scale = 0;
};

/// Finds the form of one matrix; zeros if all its weights are 0. If a weight is not finite, the
/// threshold is not finite either.
TernaryForm ternary_form(std::span<const float> weights);

/// Writes the ternary values of one matrix to `out`, which has the matrix's size and may be
/// `weights` itself. A matrix that is already ternary stays as it is. So does a matrix with a
/// weight that is not finite, because the ternary values would hide that the model has diverged.
void make_ternary(std::span<const float> weights, std::span<float> out);

/// Makes a network that runs `inner`, which has this layout, with ternary matrices in place of the
/// weight matrices that it is given. The gradient is taken at the ternary weights, as if they were
/// the parameters. Keeps a copy of all parameters.
std::unique_ptr<Network<float>> make_ternary_network(std::unique_ptr<Network<float>> inner,
                                                     const Layout& layout);

}  // namespace gv
