// Settings that do not suit batch norms, whose statistics are those of one peer.
#pragma once

#include <vector>

#include "base/problems.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Says which settings do not suit the batch norms among the layers, if there are any.
Problems batch_norm_problems(const Config& config, const std::vector<LayerSpec>& layers);

}  // namespace gv
