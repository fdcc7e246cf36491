// Decides when to end a generation although nothing is wrong: for newcomers, or for a better plan.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "consensus/generation/agreement.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// Decides when a generation should be renewed. Among its remaining peers, only the one with the
/// lowest id decides. Pure.
class RebalancePolicy {
 public:
  explicit RebalancePolicy(PeerId self) : self_(self) {}

  void enter_generation(Time now, std::size_t peers);
  /// Call when the generation is over, or when it admits no more peers.
  void rest();

  /// True when a newcomer has waited long enough to be admitted. Also asks lost peers whether they
  /// are back, because after a network partition each side may have given up the other.
  bool newcomers_wait(Time now, const Agreement& agreement, const std::vector<PeerId>& candidates,
                      Effects& out);

  /// Call when we have finished an operation.
  void operation_done(Time now);

  /// True when a ballot should update shares, order and algorithm from new measurements. The first
  /// such ballot is due after some operations with the same peers, once all links are measured.
  /// Each later ballot is due after four times as many operations as the one before, so that
  /// ballots cost almost nothing. Also true when operations have become much slower. In that case
  /// the count of operations restarts, but at most once in `recount_min`. `operations` is the
  /// number of operations that we have finished.
  bool ballot_is_due(const Generation& generation, const std::vector<PeerId>& candidates,
                     std::uint64_t operations);

  /// When to call newcomers_wait() next.
  Time deadline() const;

  /// The shortest time between two restarts of the count. On a machine with varying speed,
  /// operations repeatedly become slower. If the count restarted each time, our ballots would use
  /// up the budget of ballots that other peers grant us, and stop the work.
  static constexpr Duration recount_min = std::chrono::seconds(10);

 private:
  bool is_ours(const Generation& generation, const std::vector<PeerId>& candidates) const;

  PeerId self_;
  Time newcomers_since_ = never;
  Time knock_at_ = never;  ///< When to ask lost peers again.
  /// The peers of the generations whose operations are counted.
  std::vector<PeerId> measured_peers_;
  std::uint64_t ballot_after_ = 0;  ///< A ballot is due after this many counted operations.
  std::uint64_t counted_from_ = 0;  ///< Counting began after this many operations.
  /// Number of coming operations that are not measured, because probes slow them down.
  std::uint64_t measuring_ = 0;
  Time done_at_{};            ///< When the newest operation ended.
  double usual_seconds_ = 0;  ///< Duration of a normal operation in seconds; 0 if it is not known.
  int slow_operations_ = 0;   ///< Number of slow operations in a row.
  Time counting_since_{};     ///< When counting last began.
};

}  // namespace gv
