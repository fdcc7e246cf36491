// What leaves hostile peers in place of their messages of a round.
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
#include "peer/node/node.hpp"
#include "sim/attacks.hpp"
#include "sim/scenario.hpp"

namespace gv {

/// Everything that is wrong with a scenario's hostile peers among so many who train in that way.
/// Their messages have to be models, and all of a round have to be waited for. `place` is the
/// file's name.
Problems problems_with_hostile(const Scenario& scenario, ModeKind mode, const MixRule& rule,
                               std::size_t peers, const std::string& place);

/// A message on its way out.
struct Departure {
  std::size_t from = 0;           ///< Peer, by number.
  std::uint32_t incarnation = 0;  ///< Of that peer.
  Transfer transfer;
};

/// The hostile act as one and know everything: what they send in a round waits until all the honest
/// have sent theirs, and is made from those models, for each victim anew. Among themselves they
/// are honest, and so is all else that they do: they train, vote in ballots and hand states over.
class HostileSenders {
 public:
  HostileSenders(std::map<std::size_t, HostileRule> rules, const MixRule& rule,
                 std::uint64_t run_seed);

  bool any() const { return !rules_.empty(); }

  /// A message of a round wants to leave; `ranks` are those of its sender's generation. What leaves
  /// now: the message, nothing yet, or with the last of the honest all that waited for it.
  std::vector<Departure> depart(Departure message, std::span<const PeerId> ranks);

 private:
  /// What is known of a round under way.
  struct Round {
    std::map<std::size_t, std::vector<float>> honest;  ///< Models sent, by rank.
    std::vector<Departure> waiting;                    ///< Of hostile peers.
    std::size_t departed = 0;                          ///< Messages, of both.
  };
  struct Generation {
    std::uint64_t key = 0;
    RoundPlan plan;
    std::vector<std::size_t> peers;  ///< By rank.
    std::map<std::uint64_t, Round> rounds;
  };

  bool is_hostile(std::size_t peer) const { return rules_.contains(peer); }
  Generation& generation(std::uint64_t key, std::span<const PeerId> ranks);
  bool is_complete(const Generation& generation, std::uint64_t round) const;
  void attack(const Generation& generation, const Round& round, Departure& message) const;

  std::map<std::size_t, HostileRule> rules_;
  MixRule rule_;
  std::uint64_t run_seed_;
  std::deque<Generation> generations_;  ///< The last few: not all peers enter one at once.
};

}  // namespace gv
