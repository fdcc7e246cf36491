// When an epoch should end although nothing is wrong: for newcomers, and for fairer shares.
#pragma once

#include <cstdint>
#include <vector>

#include "consensus/effects.hpp"
#include "consensus/ring/agreement.hpp"

namespace gv {

/// The first by id in an epoch decides when it is renewed; the others know nothing of it. Pure.
class EpochRenewal {
 public:
  explicit EpochRenewal(PeerId self) : self_(self) {}

  void enter_epoch(Time now);
  /// The epoch is over, or nobody is let in any more.
  void rest();

  /// True when somebody of the candidates has waited for long enough to be let in. Asks after the
  /// lost as well: both sides of a cut may have given each other up.
  bool newcomers_wait(Time now, const RingAgreement& agreement,
                      const std::vector<PeerId>& candidates, Effects& out);

  /// True when the shares should follow measured speeds, which a ballot collects: after some
  /// operations with the same peers, and again after four times as many, so that the ballots cost
  /// next to nothing. `operations` counts those we have finished.
  bool shares_are_due(const Epoch& epoch, const std::vector<PeerId>& candidates,
                      std::uint64_t operations);

  /// When newcomers_wait() has work.
  Time deadline() const;

 private:
  bool is_ours(const Epoch& epoch) const;

  PeerId self_;
  Time newcomers_since_ = never;
  Time knock_at_ = never;               ///< When the lost are asked after.
  std::vector<PeerId> balanced_order_;  ///< Whose shares are looked at,
  std::uint64_t balance_after_ = 0;     ///< after so many operations
  std::uint64_t balance_count_ = 0;     ///< from this one on.
};

}  // namespace gv
