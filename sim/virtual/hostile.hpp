// Replaces the messages that hostile peers send in a round of mixing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "consensus/message/effects.hpp"
#include "consensus/mixing/round_plan.hpp"
#include "peer/modes/modes.hpp"
#include "peer/node/node.hpp"
#include "sim/attacks.hpp"
#include "sim/scenario.hpp"

namespace gv {

/// Returns all problems with a scenario's hostile peers in a swarm of `peers` in that mode. Their
/// messages must be models, and a round must wait for all of its messages. `place` is the file's
/// name.
Problems problems_with_hostile(const Scenario& scenario, ModeKind mode, const MixRule& rule,
                               std::size_t peers, const std::string& place);

/// A message that is about to be sent.
struct Departure {
  std::size_t from = 0;           ///< Peer, by number.
  std::uint32_t incarnation = 0;  ///< Incarnation of that peer.
  Transfer transfer;
};

/// Hostile peers collude and know everything. Their messages of a round wait until all honest peers
/// have sent their models, and are computed from these, separately for each victim. Otherwise, and
/// among themselves, they are honest: they train, vote in ballots and send states.
class HostileSenders {
 public:
  HostileSenders(std::map<std::size_t, HostileRule> rules, const MixRule& rule,
                 std::uint64_t run_seed);

  bool any() const { return !rules_.empty(); }

  /// Takes a message of a round. `ranks` has the peers of the sender's generation by rank, and
  /// `hosts` their hosts, as in RoundPlan. Returns the messages that leave now: an honest one at
  /// once, and with the last honest one also all waiting hostile ones.
  std::vector<Departure> depart(Departure message, std::span<const PeerId> ranks,
                                const std::vector<std::size_t>& hosts);

 private:
  /// A round that is not over.
  struct Round {
    std::map<std::size_t, std::vector<float>> honest;  ///< Models sent, by rank.
    std::vector<Departure> waiting;                    ///< Messages of hostile peers.
    std::size_t departed = 0;                          ///< Messages that left, honest and hostile.
  };
  struct Generation {
    std::uint64_t key = 0;
    RoundPlan plan;
    std::vector<std::size_t> peers;  ///< Peers by rank.
    std::map<std::uint64_t, Round> rounds;
  };

  bool is_hostile(std::size_t peer) const { return rules_.contains(peer); }
  Generation& generation(std::uint64_t key, std::span<const PeerId> ranks,
                         const std::vector<std::size_t>& hosts);
  bool is_complete(const Generation& generation, std::uint64_t round) const;
  void attack(const Generation& generation, const Round& round, Departure& message) const;

  std::map<std::size_t, HostileRule> rules_;
  MixRule rule_;
  std::uint64_t run_seed_;
  std::deque<Generation> generations_;  ///< The last few; peers enter one by one.
};

}  // namespace gv
