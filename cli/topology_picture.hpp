// Pictures of topologies: peers on a circle and the pairs that meet, with a panel for each round.
#pragma once

#include <string>

#include "cli/topology_text.hpp"

namespace gv {

/// Draws plain SVG. A line is as dark as its weight; an arrow means that the model goes only one
/// way. As for topology_report(), the topology must fit.
std::string topology_svg(const TopologyQuestion& question);

}  // namespace gv
