// Pins a peer to a processor when several peers share one.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "peer/modes/mode.hpp"

namespace gv {

/// Returns the index of the processor on which this peer should stay. Neighbours share a processor,
/// so that their messages are still in its cache. Returns nullopt unless there are more peers than
/// processors and every processor gets equally many. Otherwise some processors would be more
/// crowded than others.
std::optional<std::size_t> processor_for(const HostPlace& place, std::size_t processors);

/// The processors that this process could use when this object was made.
class Processors {
 public:
  Processors();

  std::size_t count() const { return usable_.size(); }

  /// Pins all threads of the process, and those that they start, to processor `which`; nullopt
  /// unpins them. Ignores failures, because only speed is at stake.
  void pin_cpu(std::optional<std::size_t> which);

 private:
  /// The system's ids of the processors that this process may use; at least one.
  std::vector<int> usable_;
  std::optional<std::size_t> kept_;
};

}  // namespace gv
