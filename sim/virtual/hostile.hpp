// Replaces the messages that hostile peers send in rounds of mixing.
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

/// Lists all problems with a scenario's hostile peers in a swarm of `peers` peers in mode `mode`.
/// Hostile peers need a rule whose messages are models, and whose rounds wait for all messages.
/// `place` is the scenario's file name.
Problems problems_with_hostile(const Scenario& scenario, ModeKind mode, const MixRule& rule,
                               std::size_t peers, const std::string& place);

/// A message that is about to be sent.
struct Departure {
  std::size_t from = 0;           ///< Peer, by number.
  std::uint32_t incarnation = 0;  ///< Incarnation of that peer.
  Transfer transfer;
};

/// Hostile peers collude and know everything. In each round, their messages wait until all honest
/// peers have sent their models. The messages are then computed from these models, separately for
/// each victim. In all other ways, and towards each other, hostile peers are honest: they train,
/// vote in ballots and send states.
class HostileSenders {
 public:
  HostileSenders(std::map<std::size_t, HostileRule> rules, const MixRule& rule,
                 std::uint64_t run_seed);

  bool any() const { return !rules_.empty(); }

  /// Takes a message of a round. `ranks` has the peers of the sender's generation by rank, and
  /// `hosts` their hosts, as in RoundPlan. Returns the messages that leave now. An honest message
  /// leaves at once. Hostile messages leave together with the round's last honest message.
  std::vector<Departure> depart(Departure message, std::span<const PeerId> ranks,
                                const std::vector<std::size_t>& hosts);

 private:
  /// A round in which not all messages have left yet.
  struct Round {
    /// Models that honest peers have sent, by rank.
    std::map<std::size_t, std::vector<float>> honest;
    std::vector<Departure> waiting;  ///< Messages of hostile peers.
    std::size_t departed = 0;        ///< Number of messages that have left.
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
  std::deque<Generation> generations_;  ///< The newest generations, in order.
};

}  // namespace gv
