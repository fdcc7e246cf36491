// One direction of a virtual link: when what is sent on it arrives, if it does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "sim/link_faults.hpp"

namespace gv {

/// What becomes of one message or block.
struct Passage {
  int copies = 0;                ///< 0 when it is lost, 2 when it is duplicated.
  bool damaged = false;          ///< Lost because it was, which the receiver notices.
  std::array<Time, 2> arrivals;  ///< Of each copy.
  Time sent{};                   ///< The link is free again.
};

/// A queue in front of a wire: what is sent waits until the wire has carried what came before.
/// Order is kept unless a piece is reordered, which makes it late by up to four latencies and 10
/// ms.
class Link {
 public:
  LinkState state;  ///< What passes while it is cut is lost; what passes a clog arrives after it.

  Passage pass(Time now, std::size_t bytes, Rng& rng);

 private:
  Time free_at_{};
  Time last_arrival_{};
};

}  // namespace gv
