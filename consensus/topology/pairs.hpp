// The pairs of each round when a topology runs by pair exchanges. All peers compute the same ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/view.hpp"
#include "consensus/topology/graphs.hpp"
#include "consensus/topology/pairing.hpp"
#include "consensus/topology/topology.hpp"

namespace gv {

/// The ranks of two peers that exchange models.
struct RankPair {
  std::size_t initiator = 0;
  std::size_t responder = 0;

  friend bool operator==(const RankPair&, const RankPair&) = default;
};

/// Why this topology cannot run by pair exchanges, and what to use instead; nullopt if it can. It
/// cannot if more than two peers average at once: in lines (moshpit), on hosts (hosts), or with
/// several partners (base_k with k > 1).
std::optional<Problem> problem_with_pairs(const Topology& topology);

/// The disjoint pairs of every round. Every peer computes the same ones from (seed, round, n):
///   complete, matching     the drawn perfect matching of matching_partner;
///   hypercube              the dimension round mod lg n: a perfect matching;
///   one_peer_exponential   every other edge of each cycle i, i + 2^t, i + 2 2^t, ... (half a
///                          directed round, since an exchange goes both ways), counted from a rank
///                          that is drawn for every round. If n = 2^K, any K consecutive
///                          rounds are exact;
///   base_k, k = 1          its rounds; each pair averages, whatever its weight in the paper;
///   all others             edges in a drawn order, each taken if both its ends are free: a maximal
///                          matching of the graph.
class PairPlan {
 public:
  /// The topology must fit n and be able to run as pairs. Stores its edges, or the rounds of
  /// base_k.
  PairPlan(const Topology& topology, std::size_t n, std::uint64_t seed);

  /// The pairs of a round. Takes time proportional to the number of edges.
  std::vector<RankPair> round(std::uint64_t round) const;

  /// Number of rounds after which the pairs repeat; 0 if every round is drawn. The rounds of
  /// one_peer_exponential repeat except for their random starting ranks.
  std::size_t period() const;

 private:
  std::vector<RankPair> shifted(std::uint64_t round) const;
  std::vector<RankPair> maximal_matching(std::uint64_t round) const;

  Topology topology_;
  std::size_t n_ = 0;
  std::uint64_t seed_ = 0;
  std::vector<Edge> edges_;  ///< The graph's edges. Used by topologies whose matchings are drawn.
  std::vector<Mixing> rounds_;  ///< The rounds of base_k.
};

/// Returns the topology if it fits n peers, otherwise the complete one, so that peers can continue
/// after one of them is lost.
Topology fitting(const Topology& topology, std::size_t n);

/// The partner of `self` in a round of fitting(topology, view.size()). Returns nullopt if `self`
/// has no partner, is alone, or is not in the view.
std::optional<Match> topology_partner(const Topology& topology, std::uint64_t seed,
                                      std::uint64_t round, const View& view, PeerId self);

/// All peers that `self` may meet in fitting(topology, view.size()), by id. Empty if `self` is
/// alone or not in the view. The topology must be a graph (see is_graph).
std::vector<PeerId> topology_neighbours(const Topology& topology, std::uint64_t seed,
                                        const View& view, PeerId self);

}  // namespace gv
