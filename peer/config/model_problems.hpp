// Checks whether a model fits the data that it is to learn from.
#pragma once

#include <cstddef>

#include "base/problems.hpp"
#include "peer/config/config.hpp"
#include "train/data_set.hpp"

namespace gv {

/// Returns the number of outputs that a model needs for these data.
std::size_t outputs_of(const ModelConfig& model, const DataSet& data);

/// Checks a model against the data. `model` must be the config's model for these data.
Problems problems_of(const Config& config, const ModelSpec& model, const DataSet& data);

}  // namespace gv
