// Time as an argument: protocols can compute with this clock's times but cannot read the clock.
#pragma once

#include <chrono>
#include <cstdint>

namespace gv {

/// The run's monotonic clock, in nanoseconds since the run began. It has no now(): only the host
/// and the simulator know the time, and they pass it to the protocols.
struct RunClock {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = std::chrono::duration<rep, period>;
  using time_point = std::chrono::time_point<RunClock>;
  static constexpr bool is_steady = true;
};

using Duration = RunClock::duration;
using Time = RunClock::time_point;

/// The deadline of a state machine that is not waiting.
inline constexpr Time never = Time::max();

/// Converts `duration` to seconds, for messages and rates.
constexpr double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

/// Converts seconds to a duration, rounded to the nanosecond. Too long a time becomes the longest
/// duration.
constexpr Duration from_seconds(double value) {
  if (value >= seconds(Duration::max())) return Duration::max();
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

/// The time `wait` (not negative) after `from`; `never` if no time is that late.
constexpr Time later(Time from, Duration wait) {
  return from > Time{} && wait > never - from ? never : from + wait;
}

}  // namespace gv
