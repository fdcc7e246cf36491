// Which peers we refuse to work with, which ones others refuse, and which are left out.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "base/conduct.hpp"
#include "base/ids.hpp"
#include "base/time.hpp"
#include "consensus/generation/ballot_budget.hpp"
#include "consensus/message/message.hpp"

namespace gv {

/// Refusals of peers, each with a time limit. A peer refuses another only for offences and losses
/// that it has seen itself, and sends its refusals to all others over its own links. A peer is
/// excluded if more than a third of all peers refuse it. If fewer refuse it, only these accusers
/// exclude it. In lockstep the accusers then take no part; otherwise they work in the same
/// generation. If fewer than a third of all peers are hostile, they cannot exclude an honest peer,
/// because at least one of its accusers would have to be honest (consensus/README.md). Pure.
class Exclusion {
 public:
  explicit Exclusion(PeerId self, Duration lasts = std::chrono::minutes(1))
      : self_(self), lasts_(lasts), conduct_({.memory = lasts, .quarantine = lasts}) {}

  Duration lasts() const { return lasts_; }
  /// Sets whether the peers of a generation wait for each other, which is the default.
  void set_in_step(bool in_step) { in_step_ = in_step; }
  bool is_in_step() const { return in_step_; }

  /// Counts a message of `peer` that breaks the rules. Returns true if we now begin to refuse the
  /// peer. In lockstep, while we refuse a peer that few others refuse, and for the same time
  /// afterwards, we begin no further refusal because of messages. Otherwise several hostile peers
  /// could take turns to keep us out for ever, because we take no part while we refuse one of them.
  bool offend(Time now, PeerId peer) {
    const bool tolerates = in_step_ && (now < tolerates_until_ || is_lonely());
    return conduct_.offend(now, peer) && !tolerates && refuse(now, peer);
  }
  /// Counts a generation that has ended because we lost `peer`. Returns true if we now begin to
  /// refuse the peer because it has ended several in quick succession, more than one a second. This
  /// refusal lasts only until the peer's budget is full again, because the peer may be honest and
  /// have a bad link.
  bool lose(Time now, PeerId peer);
  /// Refuses `peer` from now on for `lasts()`. Returns true if the refusal is new.
  bool refuse(Time now, PeerId peer) { return refuse(now, peer, lasts_); }
  /// Refuses `peer` for ever.
  void refuse_for_ever(PeerId peer) { until_[self_][peer] = never; }
  bool is_refused_for_ever(PeerId peer) const;
  /// Replaces the refusals that `from` reported earlier.
  void hear(Time now, PeerId from, const std::vector<PeerId>& refused);
  /// Drops expired refusals. Returns true if one of ours has expired. `peers` are all live peers,
  /// including us.
  bool tick(Time now, const std::vector<PeerId>& peers);
  /// When the next refusal expires.
  Time deadline() const;

  /// The peers that we refuse, sorted by id.
  std::vector<PeerId> own() const;
  bool refuses(PeerId accuser, PeerId accused) const;
  /// True if we do not work with `peer`, whatever others report about it.
  bool shuns(PeerId peer) const {
    return in_step_ ? refuses(self_, peer) : is_refused_for_ever(peer);
  }
  /// True if we shun `peer`, or if more than a third of `peers` refuse it. `peers` are all live
  /// peers, including us.
  bool is_excluded(PeerId peer, const std::vector<PeerId>& peers) const {
    return shuns(peer) || is_refused_by_many(peer, peers);
  }
  /// True if more than a third of `peers` refuse `peer`.
  bool is_refused_by_many(PeerId peer, const std::vector<PeerId>& peers) const;
  /// Returns the peers that a generation formed from `present` would contain, sorted by id. Peers
  /// that more than a third of `peers` refuse are left out. In lockstep, a peer is included only if
  /// all peers that it refuses are left out. So two peers that refuse each other are both left out.
  /// A hostile peer that refuses an honest one is left out, and peers that refuse only the hostile
  /// one are included.
  std::vector<PeerId> taking_part(const std::vector<PeerId>& present,
                                  const std::vector<PeerId>& peers) const;

  friend class Fields;
  static constexpr std::size_t field_count = 8;
  friend bool operator==(const Exclusion&, const Exclusion&) = default;

 private:
  bool refuse(Time now, PeerId peer, Duration lasts);
  bool is_lonely() const;

  PeerId self_;
  Duration lasts_;
  Conduct conduct_;
  BallotBudget losses_;  ///< Counts the generations that each peer has ended by being lost.
  bool in_step_ = true;
  std::map<PeerId, std::map<PeerId, Time>> until_;  ///< When each refusal ends, by accuser and
                                                    ///< accused.
  std::set<PeerId> shared_;  ///< Peers that we refuse, and that many others have refused at some
                             ///< time since we began to.
  Time tolerates_until_{};   ///< Until this time we begin no refusal because of messages.
};

}  // namespace gv
