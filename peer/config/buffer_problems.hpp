// Settings that do not work with a model's buffers, such as the statistics of a batch norm.
#pragma once

#include "base/problems.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Lists the settings that would treat a buffer like a gradient: they measure it, send only a part
/// of it, or add it with a momentum or with several peers' changes at once. A variance could then
/// become negative.
Problems buffer_problems(const Config& config);

}  // namespace gv
