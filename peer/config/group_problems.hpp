// Settings with which no group of peers can carry a stage of a pipeline.
#pragma once

#include "base/problems.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Why groups cannot carry stages with these settings, whatever `pipeline.group` says. Places are
/// "pipeline.group".
Problems group_problems(const Config& config);

/// Layers whose `split` has no effect: no group shares them. Places are "model.layers[3]".
Problems split_problems(const Config& config);

}  // namespace gv
