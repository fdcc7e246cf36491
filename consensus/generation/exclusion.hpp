// Which peers this peer refuses to work with, which ones others refuse, and which are left out.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "base/conduct.hpp"
#include "base/ids.hpp"
#include "base/time.hpp"
#include "consensus/message/message.hpp"

namespace gv {

/// Refusals of peers, each with a time limit. A peer refuses another only for offences that it has
/// seen itself, and tells all others over its own links. A peer is excluded if more than a third of
/// all peers refuse it. In lockstep, a peer refused by fewer is excluded only by its accusers, and
/// these take no part themselves; otherwise they take part beside it. If fewer than a third of all
/// peers are hostile, they cannot exclude a sound peer, because one of its accusers would have to
/// be sound (consensus/README.md). Pure.
class Exclusion {
 public:
  explicit Exclusion(PeerId self, Duration lasts = std::chrono::minutes(1))
      : self_(self), lasts_(lasts), conduct_({.memory = lasts, .quarantine = lasts}) {}

  Duration lasts() const { return lasts_; }
  /// Sets whether the peers of a generation wait for each other, as they do by default.
  void set_in_step(bool in_step) { in_step_ = in_step; }
  bool is_in_step() const { return in_step_; }

  /// Counts an unsound message of `peer`. Returns true if we now begin to refuse the peer. In
  /// lockstep, while we refuse a peer that few others refuse, and for the same time afterwards, we
  /// begin no further refusal for messages. Otherwise several hostile peers in turn could keep us
  /// out for ever, because we take no part meanwhile.
  bool offend(Time now, PeerId peer) {
    const bool tolerates = in_step_ && (now < tolerates_until_ || is_lonely());
    return conduct_.offend(now, peer) && !tolerates && refuse(now, peer);
  }
  /// Refuses `peer` from now on for `lasts()`. Returns true if the refusal is new.
  bool refuse(Time now, PeerId peer);
  /// Refuses `peer` for ever.
  void refuse_for_ever(PeerId peer) { until_[self_][peer] = never; }
  bool is_refused_for_ever(PeerId peer) const;
  /// Replaces the refusals of `from` by these.
  void hear(Time now, PeerId from, const std::vector<PeerId>& refused);
  /// Drops expired refusals. Returns true if one of ours has expired. `peers` as in is_excluded().
  bool tick(Time now, const std::vector<PeerId>& peers);
  /// When the next refusal expires.
  Time deadline() const;

  /// The peers that we refuse, by id.
  std::vector<PeerId> own() const;
  bool refuses(PeerId accuser, PeerId accused) const;
  /// True if we do not work with `peer`, whatever others say about it.
  bool shuns(PeerId peer) const {
    return in_step_ ? refuses(self_, peer) : is_refused_for_ever(peer);
  }
  /// `peers`: all live peers, including us.
  bool is_excluded(PeerId peer, const std::vector<PeerId>& peers) const {
    return shuns(peer) || is_refused_by_many(peer, peers);
  }
  /// True if more than a third of `peers` refuse `peer`.
  bool is_refused_by_many(PeerId peer, const std::vector<PeerId>& peers) const;
  /// The peers of `present` that a generation of them contains, by id: those that no more than a
  /// third of `peers` refuse. In lockstep, a peer also takes part only if every peer that it
  /// refuses does not. Two peers that refuse each other are therefore both left out, and so is a
  /// hostile peer that refuses a sound one; the peers that refuse only this hostile one take part.
  std::vector<PeerId> taking_part(const std::vector<PeerId>& present,
                                  const std::vector<PeerId>& peers) const;

  friend class Fields;
  static constexpr std::size_t field_count = 7;
  friend bool operator==(const Exclusion&, const Exclusion&) = default;

 private:
  bool is_lonely() const;

  PeerId self_;
  Duration lasts_;
  Conduct conduct_;
  bool in_step_ = true;
  std::map<PeerId, std::map<PeerId, Time>> until_;  ///< Ends of refusals, by accuser and accused.
  std::set<PeerId> shared_;  ///< Peers that we refuse, and that many others refused at some time
                             ///< meanwhile.
  Time tolerates_until_{};   ///< We begin no refusal for messages before this.
};

}  // namespace gv
