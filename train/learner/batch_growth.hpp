// How the batch grows while the swarm's budget is used up.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace gv {

/// A function of the samples that all peers have trained on, so that peers which agree on these
/// agree on their batches, and a run that goes on from a checkpoint needs no other number.
struct BatchGrowth {
  std::vector<std::uint64_t> at;  ///< Numbers of samples after which it grows, ascending.
  std::uint64_t factor = 1;       ///< By this factor each time.

  /// The factor on the first batch after that number of samples.
  std::uint64_t after(std::uint64_t samples) const {
    std::uint64_t growth = 1;
    for (const std::uint64_t each : at) growth *= samples >= each ? factor : 1;
    return growth;
  }
  /// The factor on the first batch at the end.
  std::uint64_t most() const { return after(std::numeric_limits<std::uint64_t>::max()); }
};

}  // namespace gv
