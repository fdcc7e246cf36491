// Settings that do not work with batch norms, because each peer has its own batch statistics.
#pragma once

#include <vector>

#include "base/problems.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Lists the settings that do not work with the batch norms among the layers.
Problems batch_norm_problems(const Config& config, const std::vector<LayerSpec>& layers);

}  // namespace gv
