// Cuts the layers of a model into the stages of a pipeline, before anything has been measured.
#pragma once

#include <cstddef>
#include <vector>

#include "base/problems.hpp"
#include "peer/config/config.hpp"
#include "train/spec.hpp"

namespace gv {

/// Returns one past the last layer of each stage: the given ends, or the cut whose slowest stage is
/// fastest within the allowed memory, by estimated costs of layers. Returns an empty list if there
/// are fewer layers than stages, or if no cut fits the memory.
std::vector<std::size_t> stage_ends(const Config& config, const ModelSpec& model,
                                    SampleShape shape);

/// Returns the most slices of a stage that fit into a peer's memory, if groups share the stages of
/// this cut. The result is at least the number that a member of a full group holds; 0 means no
/// limit.
std::size_t slices_most(const Config& config, const ModelSpec& model, SampleShape shape,
                        const std::vector<std::size_t>& ends);

/// Explains why stage_ends() is empty, and gives a remedy.
Problem no_cut(const Config& config, const ModelSpec& model, SampleShape shape);

}  // namespace gv
