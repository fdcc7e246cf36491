// How good a model is on a data set that it does not train on.
#pragma once

#include <cstddef>
#include <span>

#include "train/data_set.hpp"
#include "train/model.hpp"

namespace gv {

/// How many samples of a data set are evaluated at once, and so the batch that a model for
/// evaluate() is made for: 256, or fewer where a sample is a long sequence.
std::size_t evaluation_batch(const DataSet& data);

/// Loss and accuracy of a model over a whole data set, in batches.
Score evaluate(Model& model, std::span<const float> parameters, const DataSet& data);

}  // namespace gv
