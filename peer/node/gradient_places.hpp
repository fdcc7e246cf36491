// The places of matrices and dense layers in a model's gradient, for compressors.
#pragma once

#include <vector>

#include "consensus/compression/power_sgd.hpp"
#include "consensus/compression/sufficient_factors.hpp"
#include "train/learner/layout.hpp"

namespace gv {

/// Places of all tensors with two or more dimensions, seen as matrices. The first dimension becomes
/// the rows.
std::vector<MatrixPlace> matrix_places(const Layout& layout);

/// Places of layers whose gradients may travel as sufficient factors.
std::vector<DensePlace> dense_places(const std::vector<DenseWeights>& layers);

}  // namespace gv
