// The senders, receivers and weights of each round of mixing. Every peer computes the same plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "consensus/mixing/mix_rule.hpp"
#include "consensus/topology/pairs.hpp"
#include "consensus/topology/topology.hpp"

namespace gv {

/// One peer's part in a round.
struct RoundTurn {
  std::vector<Share> in;         ///< The in-neighbours of this peer with their weights, by rank.
  std::vector<std::size_t> out;  ///< The out-neighbours of this peer, by rank.
};

/// The rounds of a rule as a function of (rule, peers, seed, hosts, round). If the topology does
/// not fit the number of peers, the complete topology replaces it.
class RoundPlan {
 public:
  /// `hosts` holds the number of each rank's host; empty if it is unknown. See mixing_of().
  RoundPlan(const MixRule& rule, std::size_t peers, std::uint64_t seed,
            std::vector<std::size_t> hosts = {});

  std::size_t peers() const { return peers_; }
  std::uint64_t seed() const { return seed_; }
  /// The topology in use. It may be the complete topology that replaced the rule's own.
  const Topology& topology() const { return rule_.topology; }

  /// The weights of a whole round, one row for each peer. Caches the last few rounds.
  const Mixing& round(std::uint64_t round) const;
  RoundTurn turn(std::size_t rank, std::uint64_t round) const;
  /// The largest number of one sender's messages that can have arrived at a peer before the peer
  /// mixes them. Peers must wait for each other. With `pull` and `push` no number is certain, and
  /// the result is 256, or more for a large staleness.
  ///
  /// Let s be the staleness. While the messages of a round are missing, a peer may make s more
  /// rounds. If neighbours send to each other, a sender waits for us in each round in which it
  /// sends to us. So it sends at most s + 1 messages of rounds that we have not sent yet. In a
  /// directed topology a sender may wait for us only through a chain of at most lg n peers, each of
  /// which hears of the one before within a period. In both cases up to s + 1 messages of earlier
  /// rounds may wait as well.
  std::size_t waiting_max() const;

  friend bool operator==(const RoundPlan& a, const RoundPlan& b) {
    return a.rule_ == b.rule_ && a.peers_ == b.peers_ && a.seed_ == b.seed_ && a.hosts_ == b.hosts_;
  }
  /// Adds the plan to a StateHash.
  void add_to(auto& hash) const { hash.add(rule_, peers_, seed_, hosts_); }

 private:
  Mixing computed(std::uint64_t round) const;

  MixRule rule_;
  std::size_t peers_;
  std::uint64_t seed_;
  std::vector<std::size_t> hosts_;
  std::optional<PairPlan> pairs_;  ///< The plan of pairs, derived from the fields above.
  bool alike_ = false;             ///< True if all rounds are equal. Derived from the fields above.
  mutable std::map<std::uint64_t, Mixing> recent_;
};

}  // namespace gv
