// The time after which the system ends a connection whose other end acknowledges nothing.
#pragma once

namespace gv {

/// A connection ends if the other host acknowledges nothing, or takes no bytes, for this long.
/// Without this limit, the system would retransmit for a quarter of an hour, even on a connection
/// that a router has already dropped.
inline constexpr int unacknowledged_max_ms = 10'000;

}  // namespace gv
