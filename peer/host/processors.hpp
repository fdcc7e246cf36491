// Which processor a peer runs on, where several share one.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "peer/modes/mode.hpp"

namespace gv {

/// The one of so many processors that this peer keeps to, if peers outnumber them and can be
/// divided evenly: neighbours share one, so that what they send each other is still in its cache,
/// and nobody is moved to where others already wait. Empty: any.
std::optional<std::size_t> processor_for(const HostPlace& place, std::size_t processors);

/// Those that this process may use, as they were when this was made.
class Processors {
 public:
  Processors();

  std::size_t count() const { return usable_.size(); }

  /// From now on all threads of the process, and those they start, run on that one alone; empty: on
  /// any. What the system refuses stays as it is: it is a matter of speed.
  void pin_cpu(std::optional<std::size_t> which);

 private:
  std::vector<int> usable_;  ///< The system's numbers. At least one.
  std::optional<std::size_t> kept_;
};

}  // namespace gv
