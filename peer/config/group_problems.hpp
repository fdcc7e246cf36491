// Settings with which no group of peers can carry a stage of a pipeline.
#pragma once

#include "base/problems.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Lists the reasons why groups cannot carry stages with these settings, whatever the value of
/// `pipeline.group`. The place of each problem is "pipeline.group".
Problems group_problems(const Config& config);

/// Lists layers whose `split` has no effect because no group shares them. The place of each problem
/// looks like "model.layers[3]".
Problems split_problems(const Config& config);

}  // namespace gv
