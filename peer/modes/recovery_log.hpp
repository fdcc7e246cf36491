// The record of generations that ended badly: who was lost, and how long it took to go on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "consensus/message/effects.hpp"

namespace gv {

/// A generation that ended badly, and how it went on.
struct Recovery {
  std::vector<PeerId> lost;     ///< Were in it and are not in that which made the next operation.
  double seconds = 0;           ///< From the end of the one to the first result of the other.
  std::size_t peers = 0;        ///< Made that operation.
  std::uint64_t operation = 0;  ///< Its number.
};

/// Generations that end one after the other without an operation between them are one interruption.
class RecoveryLog {
 public:
  /// A generation of those in `order` has ended badly.
  void become_interrupted(Time now, const std::vector<PeerId>& order);
  /// Those in `order` have finished an operation.
  void become_resumed(Time now, const std::vector<PeerId>& order, std::uint64_t operation,
                      Effects& out);

  /// A generation ended badly and no operation finished since.
  bool is_interrupted() const { return since_.has_value(); }
  /// The newest that is over and lost somebody; none if nobody is in it.
  const Recovery& last() const { return last_; }
  /// How many have lost somebody.
  std::uint64_t losses() const { return losses_; }

 private:
  std::optional<Time> since_;
  std::vector<PeerId> order_;  ///< Who was in that generation.
  Recovery last_;
  std::uint64_t losses_ = 0;
};

}  // namespace gv
