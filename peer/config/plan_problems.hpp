// Settings with which no plan of stages and groups can be searched for, or would be wrong, and pins
// that no plan could keep.
#pragma once

#include "base/problems.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Why `pipeline.plan = "auto"` cannot go with these settings. Places are "pipeline.plan".
Problems plan_problems(const Config& config);

/// Why the pins of a pipeline cannot hold. Places are "pipeline.pins".
Problems pin_problems(const Config& config);

}  // namespace gv
