// Pins a peer to a processor when several peers share one.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "peer/modes/mode.hpp"

namespace gv {

/// Returns the one of `processors` on which this peer should stay, if peers outnumber processors
/// and divide evenly among them; nullopt otherwise. Neighbours share a processor, so that their
/// messages are still in its cache, and no peer is moved to a processor where others already wait.
std::optional<std::size_t> processor_for(const HostPlace& place, std::size_t processors);

/// The processors that this process could use when this object was made.
class Processors {
 public:
  Processors();

  std::size_t count() const { return usable_.size(); }

  /// Pins all threads of the process, and those that they start, to that processor; empty unpins
  /// them. Ignores failures, because only speed is at stake.
  void pin_cpu(std::optional<std::size_t> which);

 private:
  std::vector<int> usable_;  ///< The system's numbers of the processors. At least one.
  std::optional<std::size_t> kept_;
};

}  // namespace gv
