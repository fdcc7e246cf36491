// Chooses a peer's processor where several peers share one.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "peer/modes/mode.hpp"

namespace gv {

/// The one of `processors` that this peer keeps to, if peers outnumber them and divide evenly.
/// Neighbours share one, so that their messages are still in its cache, and no peer is moved to
/// where others already wait. Empty: any.
std::optional<std::size_t> processor_for(const HostPlace& place, std::size_t processors);

/// The processors that this process might use when this was made.
class Processors {
 public:
  Processors();

  std::size_t count() const { return usable_.size(); }

  /// Pins all threads of the process, and those they start, to that processor; empty: to none.
  /// Ignores refusals of the system, since only speed is at stake.
  void pin_cpu(std::optional<std::size_t> which);

 private:
  std::vector<int> usable_;  ///< The system's numbers of processors. At least one.
  std::optional<std::size_t> kept_;
};

}  // namespace gv
