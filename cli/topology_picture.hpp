// Pictures of topologies: peers on a circle and the pairs that meet, a panel for each round.
#pragma once

#include <string>

#include "cli/topology_text.hpp"

namespace gv {

/// Plain SVG. Lines are as dark as their weights; where a model goes one way there is an arrow. As
/// for topology_report, the topology must fit.
std::string topology_svg(const TopologyQuestion& question);

}  // namespace gv
