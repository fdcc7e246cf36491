// When a piece of a TCP stream arrives over a link that is not perfect. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "sim/scenario.hpp"

namespace gv {

/// What becomes of one segment: so many bytes as were read at once.
struct SegmentFate {
  Time due{};  ///< When its last byte arrives.
  std::uint32_t losses = 0;
  bool duplicated = false;
  bool reordered = false;
  std::optional<std::size_t> damaged;  ///< Which byte arrives changed,
  std::uint8_t damage = 0;             ///< and what it is xor-ed with; never 0.
};

/// One direction between two peers, shared by all their connections. TCP shows programs no lost,
/// repeated or overtaken bytes, only the time and the bandwidth that mending them takes; that is
/// what is modelled: a lost segment stands still for TCP's first retransmission time (200 ms),
/// twice as long when it is lost again; a repeated one is paid for twice; an overtaken one waits
/// 10 ms for those before it.
class LinkPace {
 public:
  explicit LinkPace(Rng rng) : rng_(rng) {}

  /// A segment of `bytes` bytes sets out at `now`. It does not arrive before `not_before`, when the
  /// one before it on the same connection does.
  SegmentFate send(Time now, std::size_t bytes, const LinkQuality& quality, Time not_before);

  /// How long a segment that sets out at `now` waits for those under way, where bandwidth is
  /// limited.
  Duration backlog(Time now) const;

 private:
  Rng rng_;
  Time free_at_{};  ///< When the bandwidth is free again.
};

}  // namespace gv
