// Decides when a generation should end although nothing is wrong: for newcomers, fairer shares or
// faster links.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "consensus/generation/agreement.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// Decides when a generation is renewed. Of its peers that are still there, only the first by id
/// decides. Pure.
class RebalancePolicy {
 public:
  explicit RebalancePolicy(PeerId self) : self_(self) {}

  void enter_generation(Time now, std::size_t peers);
  /// Call when the generation is over, or admits no more peers.
  void rest();

  /// True when a candidate has waited long enough to be admitted. Also asks lost peers whether they
  /// are back, because after a partition both sides may have given each other up.
  bool newcomers_wait(Time now, const Agreement& agreement, const std::vector<PeerId>& candidates,
                      Effects& out);

  /// Call when we have finished an operation.
  void operation_done(Time now);

  /// True when a ballot should update shares, order and algorithm from new measurements: after some
  /// operations with the same peers, once all links are measured, and again after four times as
  /// many operations, so that ballots cost almost nothing. Also true when operations have become
  /// much slower; then counting restarts, at most once in `recount_min`. `operations` is the number
  /// that we have finished.
  bool ballot_is_due(const Generation& generation, const std::vector<PeerId>& candidates,
                     std::uint64_t operations);

  /// When newcomers_wait() has work.
  Time deadline() const;

  /// On a machine whose speed varies, operations repeatedly become slower. Restarting the count
  /// each time would use up the budget that the others grant our ballots, and stop the work.
  static constexpr Duration recount_min = std::chrono::seconds(10);

 private:
  bool is_ours(const Generation& generation, const std::vector<PeerId>& candidates) const;

  PeerId self_;
  Time newcomers_since_ = never;
  Time knock_at_ = never;               ///< When lost peers are asked again.
  std::vector<PeerId> measured_peers_;  ///< Peers of the generations in which we count.
  std::uint64_t ballot_after_ = 0;      ///< Operations after which a ballot is due.
  std::uint64_t counted_from_ = 0;      ///< Operation from which we count.
  std::uint64_t measuring_ = 0;         ///< Number of coming operations that probes will slow down.
  Time done_at_{};                      ///< End of the newest operation.
  double usual_seconds_ = 0;            ///< Seconds of a normal operation; 0: not known.
  int slow_operations_ = 0;             ///< Slow operations in a row.
  Time counting_since_{};               ///< When we began to count.
};

}  // namespace gv
