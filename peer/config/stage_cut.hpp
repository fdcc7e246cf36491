// Cuts the layers of a model into the stages of a pipeline, before anything was measured.
#pragma once

#include <cstddef>
#include <vector>

#include "base/problems.hpp"
#include "peer/config/config.hpp"
#include "train/spec.hpp"

namespace gv {

/// One past the last layer of each stage: the given ends, or the cut whose slowest stage is fastest
/// within the allowed memory, by estimated costs of layers. Empty if there are fewer layers than
/// stages or no cut fits the memory.
std::vector<std::size_t> stage_ends(const Config& config, const ModelSpec& model,
                                    SampleShape shape);

/// Says why stage_ends() is empty, and what would help.
Problem no_cut(const Config& config, const ModelSpec& model, SampleShape shape);

}  // namespace gv
