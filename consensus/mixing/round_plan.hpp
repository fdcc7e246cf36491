// Who sends to whom in each round of mixing and what it weighs, the same at every peer.
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
  std::vector<Share> in;         ///< Whom it hears and what their words weigh, by rank.
  std::vector<std::size_t> out;  ///< Who hears it, by rank.
};

/// The rounds of a rule for so many peers: a function of (rule, peers, seed, round). A topology
/// that does not fit the number of peers is replaced by the complete one.
class RoundPlan {
 public:
  RoundPlan(const MixRule& rule, std::size_t peers, std::uint64_t seed);

  std::size_t peers() const { return peers_; }
  std::uint64_t seed() const { return seed_; }
  /// The topology that its rounds are made of.
  const Topology& topology() const { return rule_.topology; }

  /// All of a round, row by row: what each takes of the others. Remembers the last few rounds.
  const Mixing& round(std::uint64_t round) const;
  RoundTurn turn(std::size_t rank, std::uint64_t round) const;

 private:
  Mixing computed(std::uint64_t round) const;

  MixRule rule_;
  std::size_t peers_;
  std::uint64_t seed_;
  std::optional<PairPlan> pairs_;
  mutable std::map<std::uint64_t, Mixing> recent_;
};

}  // namespace gv
