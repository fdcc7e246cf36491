// Limits how often each peer may interrupt the others with ballots.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>

#include "base/ids.hpp"
#include "base/time.hpp"

namespace gv {

/// A ballot makes all its peers stop work, so no peer may call ballots without limit. Each peer may
/// interrupt us `burst` times in quick succession, and once more after every `interval`. Faults
/// make honest peers call many ballots, but a ballot that leads to a generation is refunded. A peer
/// over its budget is not punished, only answered later. Pure.
class BallotBudget {
 public:
  static constexpr int burst = 8;
  static constexpr Duration interval = std::chrono::seconds(1);

  /// Spends one interruption from the budget of `peer`. Returns false if none is left.
  bool take(Time now, PeerId peer) {
    Time& full_at = full_at_.try_emplace(peer, now).first->second;
    full_at = std::max(full_at, now);
    if (full_at - now > (burst - 1) * interval) return false;
    full_at += interval;
    return true;
  }
  /// Refunds the last interruption that `peer` caused, because it was useful.
  void give_back(PeerId peer) {
    const auto found = full_at_.find(peer);
    if (found != full_at_.end()) found->second -= interval;
  }
  /// Charges `peer` three times the time that we have `waited` for the decision of its ballot.
  /// Otherwise a peer that calls few ballots and decides none would hold us up nearly all the time.
  void charge(Time now, PeerId peer, Duration waited) {
    if (waited <= Duration{}) return;
    Time& full_at = full_at_.try_emplace(peer, now).first->second;
    full_at = std::max(full_at, now) + 3 * waited;
  }
  /// True if the peer has less than half of its budget left. We then do not wait for its ballots.
  bool is_low(Time now, PeerId peer) const {
    const auto found = full_at_.find(peer);
    return found != full_at_.end() && found->second - now > burst / 2 * interval;
  }
  /// Forgets the peers whose budget is full.
  void tick(Time now) {
    std::erase_if(full_at_, [&](const auto& entry) { return entry.second <= now; });
  }

  friend class Fields;
  static constexpr std::size_t field_count = 1;
  friend bool operator==(const BallotBudget&, const BallotBudget&) = default;

 private:
  std::map<PeerId, Time> full_at_;  ///< When the budget of each peer will be full again.
};

}  // namespace gv
