// Computes when pieces of a TCP stream arrive over an imperfect link. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "sim/scenario.hpp"

namespace gv {

/// What happens to one segment, which is the bytes of one read.
struct SegmentFate {
  Time due{};  ///< When its last byte arrives.
  std::uint32_t losses = 0;
  bool duplicated = false;
  bool reordered = false;
  /// Index of a byte that arrives changed; nullopt if none does.
  std::optional<std::size_t> damaged;
  std::uint8_t damage = 0;  ///< The value xor-ed to that byte, never 0.
};

/// One direction between two peers, shared by all their connections. TCP hides lost, repeated and
/// overtaken bytes from programs, which only notice the time and bandwidth that repairs take. So a
/// lost segment waits for TCP's first retransmission time (200 ms), twice as long if it is lost
/// again; a repeated one uses bandwidth twice; an overtaken one waits 10 ms for those before it.
class LinkPace {
 public:
  explicit LinkPace(Rng rng) : rng_(rng) {}

  /// Sends a segment of `bytes` bytes at `now`. It does not arrive before `not_before`, when the
  /// previous segment of the same connection does.
  SegmentFate send(Time now, std::size_t bytes, const LinkQuality& quality, Time not_before);

  /// How long a segment sent at `now` waits for earlier ones, if bandwidth is limited.
  Duration backlog(Time now) const;

 private:
  Rng rng_;
  Time free_at_{};  ///< When the bandwidth is free again.
};

}  // namespace gv
