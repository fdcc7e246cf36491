// One direction of a virtual link: whether and when a message or block arrives.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "sim/link_faults.hpp"

namespace gv {

/// The fate of one message or block.
struct Passage {
  int copies = 0;                ///< 0 if lost, 2 if duplicated.
  bool damaged = false;          ///< Lost by damage, which the receiver notices.
  std::array<Time, 2> arrivals;  ///< Arrival of each copy.
  Time sent{};                   ///< When the link is free again.
};

/// A queue in front of a wire: a piece waits until the wire has carried earlier ones. Order is kept
/// unless a piece is reordered, which delays it by up to four latencies and 10 ms.
class Link {
 public:
  /// Pieces sent during a cut are lost; those sent during a clog arrive after it.
  LinkState state;

  Passage pass(Time now, std::size_t bytes, Rng& rng);

 private:
  Time free_at_{};
  Time last_arrival_{};
};

}  // namespace gv
