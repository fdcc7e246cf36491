// Records generations that ended because of a fault: which peers were lost, and when work resumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "consensus/message/effects.hpp"

namespace gv {

/// How work resumed after a generation had ended because of a fault.
struct Recovery {
  /// Peers of the ended generation that did not take part in the next operation.
  std::vector<PeerId> lost;
  /// Seconds from the end of the generation to the first result of the next operation.
  double seconds = 0;
  std::size_t peers = 0;        ///< Peers that took part in the next operation.
  std::uint64_t operation = 0;  ///< Number of the next operation.
};

/// Records interruptions and recoveries. If several generations end without a finished operation
/// between them, they count as one interruption.
class RecoveryLog {
 public:
  /// Call when a generation with the peers in `order` has ended because of a fault.
  void become_interrupted(Time now, const std::vector<PeerId>& order);
  /// Call when the peers in `order` have finished an operation.
  void become_resumed(Time now, const std::vector<PeerId>& order, std::uint64_t operation,
                      Effects& out);

  /// True if a generation has ended because of a fault and no operation has finished since.
  bool is_interrupted() const { return since_.has_value(); }
  /// The newest completed recovery that lost a peer. If there was none, its field `lost` is empty.
  const Recovery& last() const { return last_; }
  /// Number of interruptions in which a peer was lost.
  std::uint64_t losses() const { return losses_; }

 private:
  std::optional<Time> since_;
  std::vector<PeerId> order_;  ///< The peers of the interrupted generation.
  Recovery last_;
  std::uint64_t losses_ = 0;
};

}  // namespace gv
