// The problem that commands report for an unknown kind of lane.
#pragma once

#include <string>

#include "base/problems.hpp"

namespace gv {

/// The problem of a name that is not a kind of lane.
inline Problem no_lane(const std::string& name) {
  return {"--lane", "'" + name + "' is no kind of lane", "write auto, tls, plain or unix"};
}

}  // namespace gv
