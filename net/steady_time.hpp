// The system's steady clock, in the time that protocols compute with.
#pragma once

#include <chrono>

#include "base/time.hpp"

namespace gv {

inline Time steady_time() {
  return Time(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

}  // namespace gv
