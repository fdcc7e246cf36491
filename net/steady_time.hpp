// The system's steady clock as the time type of the protocols.
#pragma once

#include <chrono>

#include "base/time.hpp"

namespace gv {

inline Time steady_time() {
  return Time(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

}  // namespace gv
