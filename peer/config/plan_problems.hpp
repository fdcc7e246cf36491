// Finds settings that rule out an automatic plan of stages and groups, and pins that no plan can
// keep.
#pragma once

#include "base/problems.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Lists why `pipeline.plan = "auto"` does not work with these settings. The place of each problem
/// is "pipeline.plan".
Problems plan_problems(const Config& config);

/// Lists why the pins of a pipeline cannot be kept. The place of each problem is "pipeline.pins".
Problems pin_problems(const Config& config);

}  // namespace gv
