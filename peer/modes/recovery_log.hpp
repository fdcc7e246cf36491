// Records generations that ended badly: which peers were lost, and how long recovery took.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "consensus/message/effects.hpp"

namespace gv {

/// A generation that ended badly, and its recovery.
struct Recovery {
  std::vector<PeerId> lost;     ///< Its peers that did not take part in the next operation.
  double seconds = 0;           ///< Seconds from its end to the first result of the next operation.
  std::size_t peers = 0;        ///< Peers that took part in that operation.
  std::uint64_t operation = 0;  ///< Number of that operation.
};

/// Counts generations that end in a row, without an operation between them, as one interruption.
class RecoveryLog {
 public:
  /// Call when a generation of the peers in `order` has ended badly.
  void become_interrupted(Time now, const std::vector<PeerId>& order);
  /// Call when the peers in `order` have finished an operation.
  void become_resumed(Time now, const std::vector<PeerId>& order, std::uint64_t operation,
                      Effects& out);

  /// True if a generation ended badly and no operation has finished since.
  bool is_interrupted() const { return since_.has_value(); }
  /// The newest finished recovery that lost a peer; `lost` is empty if there was none.
  const Recovery& last() const { return last_; }
  /// Interruptions that lost a peer.
  std::uint64_t losses() const { return losses_; }

 private:
  std::optional<Time> since_;
  std::vector<PeerId> order_;  ///< Peers of the interrupted generation.
  Recovery last_;
  std::uint64_t losses_ = 0;
};

}  // namespace gv
