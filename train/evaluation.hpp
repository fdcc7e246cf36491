// Evaluates a model on a data set that it does not train on.
#pragma once

#include <cstddef>
#include <span>

#include "train/data_set.hpp"
#include "train/model.hpp"

namespace gv {

/// Samples of a data set that are evaluated at once: 256, or fewer if a sample is a long sequence.
/// A model for evaluate() is made for a batch of this size.
std::size_t evaluation_batch(const DataSet& data);

/// Loss and accuracy of a model over a whole data set, in batches.
Score evaluate(Model& model, std::span<const float> parameters, const DataSet& data);

}  // namespace gv
