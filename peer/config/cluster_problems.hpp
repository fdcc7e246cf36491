// Settings that do not work with the sums and counts of a k-means layer.
#pragma once

#include <vector>

#include "base/problems.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Lists the settings that do not work with the layers of clusters. Such settings would change sums
/// and counts differently, or make counts negative.
Problems cluster_problems(const Config& config, const std::vector<LayerSpec>& layers);

}  // namespace gv
