// The time after which the system ends a connection whose other end acknowledges nothing.
#pragma once

namespace gv {

/// A connection ends if the other host acknowledges nothing, or takes no bytes, for this long.
/// Otherwise the system would send again for a quarter of an hour, although a router may have
/// forgotten the connection.
inline constexpr int unacknowledged_max_ms = 10'000;

}  // namespace gv
