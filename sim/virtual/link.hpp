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
  int copies = 0;  ///< Number of undamaged copies that arrive: 0 if lost, 2 if duplicated.
  /// True if the message or block arrives damaged, so that the receiver drops it.
  bool damaged = false;
  std::array<Time, 2> arrivals;  ///< Arrival of each copy.
  Time sent{};                   ///< When the whole message or block has been sent and the link is
                                 ///< free again.
};

/// A wire with a queue: a message or block waits until the wire has carried all earlier ones. Order
/// is kept, except that a reordered message or block is delayed by up to four latencies and 10 ms.
class Link {
 public:
  /// The current faults. Messages and blocks are lost during a cut, and arrive after the end of a
  /// clog.
  LinkState state;

  Passage pass(Time now, std::size_t bytes, Rng& rng);

 private:
  Time free_at_{};
  Time last_arrival_{};
};

}  // namespace gv
