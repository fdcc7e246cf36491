// Evaluates a model on a whole data set.
#pragma once

#include <cstddef>
#include <span>

#include "train/data_set.hpp"
#include "train/model.hpp"

namespace gv {

/// Number of samples evaluated at once: 256, or fewer if a sample is a long sequence. The model
/// given to evaluate() must be made for this batch size.
std::size_t evaluation_batch(const DataSet& data);

/// The loss and accuracy of a model over a whole data set, computed in batches.
Score evaluate(Model& model, std::span<const float> parameters, const DataSet& data);

}  // namespace gv
