// Arrival times of pieces of a TCP stream over an imperfect link. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "sim/scenario.hpp"

namespace gv {

/// The fate of one segment: the bytes of one read.
struct SegmentFate {
  Time due{};  ///< When its last byte arrives.
  std::uint32_t losses = 0;
  bool duplicated = false;
  bool reordered = false;
  std::optional<std::size_t> damaged;  ///< Index of a byte that arrives changed; empty: none.
  std::uint8_t damage = 0;             ///< Value that is xor-ed to that byte; never 0.
};

/// One direction between two peers, shared by all their connections. TCP hides lost, repeated and
/// overtaken bytes from programs; they only see the time and the bandwidth of mending them, and
/// that is modelled: a lost segment waits for TCP's first retransmission time (200 ms), twice as
/// long when it is lost again; a repeated one is paid for twice; an overtaken one waits 10 ms for
/// those before it.
class LinkPace {
 public:
  explicit LinkPace(Rng rng) : rng_(rng) {}

  /// A segment of `bytes` bytes leaves at `now`. It does not arrive before `not_before`, when the
  /// one before it on the same connection does.
  SegmentFate send(Time now, std::size_t bytes, const LinkQuality& quality, Time not_before);

  /// How long a segment that leaves at `now` waits for those under way, where bandwidth is limited.
  Duration backlog(Time now) const;

 private:
  Rng rng_;
  Time free_at_{};  ///< When the bandwidth is free again.
};

}  // namespace gv
