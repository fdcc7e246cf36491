// What commands say of a lane that they do not know.
#pragma once

#include <string>

#include "base/problems.hpp"

namespace gv {

/// The problem of a name that is no kind of lane.
inline Problem no_lane(const std::string& name) {
  return {"--lane", "'" + name + "' is no kind of lane", "write auto, tls, plain or unix"};
}

}  // namespace gv
