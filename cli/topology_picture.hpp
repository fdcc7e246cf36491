// Pictures of topologies: peers on a circle and the pairs that mix, with a panel for each round.
#pragma once

#include <string>

#include "cli/topology_text.hpp"

namespace gv {

/// Draws plain SVG. The larger a line's weight, the darker the line. An arrow means that the model
/// goes only one way. The topology must fit the peers, as for topology_report().
std::string topology_svg(const TopologyQuestion& question);

}  // namespace gv
