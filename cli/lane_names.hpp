// Kinds of lanes by the names that people give them on the command line.
#pragma once

#include <optional>
#include <string>

#include "base/problems.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Empty if there is no kind of that name.
std::optional<LaneKind> lane_kind(const std::string& name);

/// The problem of a name that is no kind of lane.
Problem no_lane(const std::string& name);

}  // namespace gv
