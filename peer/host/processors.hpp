// Pins a peer to a processor when several peers share one.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "peer/modes/mode.hpp"

namespace gv {

/// Returns the one of `processors` that this peer should stay on, if peers outnumber processors and
/// divide evenly among them; nullopt otherwise. Neighbours share a processor, so that their
/// messages are still in its cache, and no peer is moved to where others already wait.
std::optional<std::size_t> processor_for(const HostPlace& place, std::size_t processors);

/// The processors that this process could use when this object was made.
class Processors {
 public:
  Processors();

  std::size_t count() const { return usable_.size(); }

  /// Pins all threads of the process, and those they start, to that processor, or to none if empty.
  /// Ignores failures, because only speed is at stake.
  void pin_cpu(std::optional<std::size_t> which);

 private:
  std::vector<int> usable_;  ///< The system's numbers of the processors. At least one.
  std::optional<std::size_t> kept_;
};

}  // namespace gv
