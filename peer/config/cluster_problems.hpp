// Settings that do not work with the sums and counts of a k-means.
#pragma once

#include <vector>

#include "base/problems.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Lists the settings that do not work with the clusters among the layers: with them, sums and
/// counts would not move alike, or counts would become negative.
Problems cluster_problems(const Config& config, const std::vector<LayerSpec>& layers);

}  // namespace gv
