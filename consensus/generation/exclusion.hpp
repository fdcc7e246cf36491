// Which peers we refuse to work with, which ones the others refuse, and who takes no part for that.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "base/conduct.hpp"
#include "base/ids.hpp"
#include "base/state_hash.hpp"
#include "base/time.hpp"
#include "consensus/message/message.hpp"

namespace gv {

/// Refusals of peers, each with its end. A peer refuses another only for what it has seen itself,
/// and says so to all over its own links. A peer is excluded if we refuse it, or if more than a
/// third of all peers do. Otherwise those that refuse it take no part themselves. With fewer than a
/// third of hostile peers no accusation excludes a sound one, as one sound peer would have to be
/// among its accusers (consensus/README.md). Pure.
class Exclusion {
 public:
  explicit Exclusion(PeerId self, Duration lasts = std::chrono::minutes(1))
      : self_(self), lasts_(lasts), conduct_({.memory = lasts, .quarantine = lasts}) {}

  Duration lasts() const { return lasts_; }

  /// Counts an unsound message of `peer`. True if we refuse the peer from now on.
  bool offend(Time now, PeerId peer) { return conduct_.offend(now, peer) && refuse(now, peer); }
  /// We have reason not to work with `peer` for a while. True if that is new.
  bool refuse(Time now, PeerId peer);
  /// `from` refuses exactly these peers.
  void hear(Time now, PeerId from, const std::vector<PeerId>& refused);
  /// Forgets what is over. True if a refusal of ours is.
  bool tick(Time now);
  /// When the next refusal is over.
  Time deadline() const;

  /// The peers that we refuse, by id.
  std::vector<PeerId> own() const;
  bool refuses(PeerId accuser, PeerId accused) const;
  /// `peers`: all live peers, ourselves included.
  bool is_excluded(PeerId peer, const std::vector<PeerId>& peers) const {
    return refuses(self_, peer) || is_refused_by_many(peer, peers);
  }
  /// More than a third of `peers` refuse `peer`.
  bool is_refused_by_many(PeerId peer, const std::vector<PeerId>& peers) const;
  /// Whether `peer` takes no part in a generation of `present` peers, because it is refused by many
  /// of `peers` or refuses one of the others that is not.
  bool is_left_out(PeerId peer, const std::vector<PeerId>& present,
                   const std::vector<PeerId>& peers) const;

  friend bool operator==(const Exclusion&, const Exclusion&) = default;
  void add_to(StateHash& hash) const { hash.add(until_, conduct_); }

 private:
  PeerId self_;
  Duration lasts_;
  Conduct conduct_;
  std::map<PeerId, std::map<PeerId, Time>> until_;  ///< By accuser and accused.
};

}  // namespace gv
