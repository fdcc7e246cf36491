// Settings with which no plan of stages and groups can be searched for, or would be wrong.
#pragma once

#include "base/problems.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Why `pipeline.plan = "auto"` cannot go with these settings. Places are "pipeline.plan".
Problems plan_problems(const Config& config);

}  // namespace gv
