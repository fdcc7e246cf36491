// Computes when pieces of a TCP stream arrive over an imperfect link. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "sim/scenario.hpp"

namespace gv {

/// The fate of one segment. A segment consists of the bytes of one read.
struct SegmentFate {
  Time due{};  ///< When the segment's last byte arrives.
  std::uint32_t losses = 0;
  bool duplicated = false;
  bool reordered = false;
  /// Index of the byte that arrives changed; nullopt if all arrive unchanged.
  std::optional<std::size_t> damaged;
  std::uint8_t damage = 0;  ///< The value that is xor-ed with the damaged byte, never 0.
};

/// One direction between two peers, shared by all their connections. TCP hides lost, repeated and
/// overtaken bytes from programs, which only notice the time and bandwidth of the repairs. So a
/// lost segment waits for TCP's first retransmission timeout (200 ms), which doubles with each
/// further loss. A repeated segment uses bandwidth twice. A reordered segment waits 10 ms for
/// earlier ones.
class LinkPace {
 public:
  explicit LinkPace(Rng rng) : rng_(rng) {}

  /// Sends a segment of `bytes` bytes at `now`. The segment arrives no earlier than `not_before`,
  /// when the previous segment of the same connection arrives.
  SegmentFate send(Time now, std::size_t bytes, const LinkQuality& quality, Time not_before);

  /// How long a segment sent at `now` waits until earlier ones no longer need the bandwidth. 0 if
  /// the bandwidth is unlimited.
  Duration backlog(Time now) const;

 private:
  Rng rng_;
  Time free_at_{};  ///< When the bandwidth is free again.
};

}  // namespace gv
