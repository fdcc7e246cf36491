// When a generation should end although nothing is wrong: for newcomers, fairer shares, faster
// links.
#pragma once

#include <cstdint>
#include <vector>

#include "consensus/generation/agreement.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// The first by id in a generation decides when it is renewed; the others know nothing of it. Pure.
class RebalancePolicy {
 public:
  explicit RebalancePolicy(PeerId self) : self_(self) {}

  void enter_generation(Time now, std::size_t peers);
  /// The generation is over, or nobody is let in any more.
  void rest();

  /// True when somebody of the candidates has waited for long enough to be let in. Asks after the
  /// lost as well: both sides of a cut may have given each other up.
  bool newcomers_wait(Time now, const Agreement& agreement, const std::vector<PeerId>& candidates,
                      Effects& out);

  /// We have finished an operation.
  void operation_done(Time now);

  /// True when shares, order and algorithm should follow what was measured, which a ballot
  /// collects: after some operations with the same peers, when all links are measured, and again
  /// after four times as many, so that the ballots cost next to nothing. When operations have
  /// become much slower it is true at once, and the counting begins again. `operations` counts
  /// those we have finished.
  bool ballot_is_due(const Generation& generation, const std::vector<PeerId>& candidates,
                     std::uint64_t operations);

  /// When newcomers_wait() has work.
  Time deadline() const;

 private:
  bool is_ours(const Generation& generation) const;

  PeerId self_;
  Time newcomers_since_ = never;
  Time knock_at_ = never;               ///< When the lost are asked after.
  std::vector<PeerId> measured_peers_;  ///< What is measured of these is looked at
  std::uint64_t ballot_after_ = 0;      ///< after so many operations
  std::uint64_t counted_from_ = 0;      ///< from this one on.
  std::uint64_t measuring_ = 0;         ///< Operations to come that probes make slower.
  Time done_at_{};                      ///< The newest operation.
  double usual_seconds_ = 0;            ///< Of an operation that is not slow; 0: not known.
  int slow_operations_ = 0;             ///< In a row.
};

}  // namespace gv
