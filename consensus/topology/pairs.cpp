// Computes matchings from graphs and from rounds.
#include "consensus/topology/pairs.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <string>

#include "base/check.hpp"
#include "consensus/topology/base_k.hpp"
#include "consensus/topology/graphs.hpp"

namespace gv {
namespace {

/// Ranks a and b as a pair. A coin toss in each round decides which peer initiates, so that it is
/// not always the same one.
RankPair pair_of(std::uint64_t seed, std::uint64_t round, std::size_t a, std::size_t b) {
  const std::size_t low = std::min(a, b);
  const std::uint64_t coin = hash_combine(hash_combine(seed, round), low);
  return coin % 2 == 0 ? RankPair{low, std::max(a, b)} : RankPair{std::max(a, b), low};
}

std::vector<RankPair> drawn_matching(std::size_t n, std::uint64_t seed, std::uint64_t round) {
  const std::vector<std::size_t> order = matching_order(seed, round, n);
  std::vector<RankPair> pairs;
  for (std::size_t at = 0; at + 1 < n; at += 2) pairs.push_back({order[at], order[at + 1]});
  return pairs;
}

}  // namespace

std::optional<Problem> problem_with_pairs(const Topology& topology) {
  if (topology.kind == TopologyKind::moshpit) {
    return Problem{"moshpit", "its groups average all at once, and an exchange has two ends",
                   "take hypercube (the same with groups of two), base_k or torus"};
  }
  if (topology.kind == TopologyKind::hosts) {
    return Problem{"hosts", "all peers of a host average at once, and an exchange has two ends",
                   "write mode = \"mixing\" below [run], or take complete"};
  }
  if (topology.kind == TopologyKind::base_k && base_k_of(topology) > 1) {
    return Problem{"base_k",
                   "with k = " + std::to_string(base_k_of(topology)) +
                       " a peer has several partners at once, and an exchange has two ends",
                   "take k = 1"};
  }
  return std::nullopt;
}

PairPlan::PairPlan(const Topology& topology, std::size_t n, std::uint64_t seed)
    : topology_(topology), n_(n), seed_(seed) {
  check(!problem_of(topology, n) && !problem_with_pairs(topology),
        "the topology does not fit, or not in pairs");
  const TopologyKind kind = topology.kind;
  const bool is_in_turn = kind == TopologyKind::complete || kind == TopologyKind::hypercube;
  if (is_graph(kind) && !is_in_turn) edges_ = edges_of(topology, n, seed);
  if (kind == TopologyKind::base_k) rounds_ = base_k_rounds(n, 1);
}

std::size_t PairPlan::period() const {
  switch (topology_.kind) {
    case TopologyKind::hypercube:
      return std::max<std::size_t>(1, static_cast<std::size_t>(std::bit_width(n_)) - 1);
    case TopologyKind::one_peer_exponential:
      return period_of(topology_, n_);
    case TopologyKind::base_k:
      return rounds_.size();
    default:
      return 0;
  }
}

std::vector<RankPair> PairPlan::shifted(std::uint64_t round) const {
  const std::size_t far = std::size_t{1} << (round % period());
  Rng draw = Rng(seed_).fork("one_peer_exponential").fork(round);
  const std::size_t origin = draw.below(n_);
  const std::size_t cycles = std::gcd(n_, far);
  const std::size_t length = n_ / cycles;
  std::vector<RankPair> pairs;
  for (std::size_t cycle = 0; cycle < cycles; ++cycle) {
    for (std::size_t place = 0; place + 1 < length; place += 2) {
      const std::size_t rank = (origin + cycle + place * far) % n_;
      pairs.push_back(pair_of(seed_, round, rank, (rank + far) % n_));
    }
  }
  return pairs;
}

std::vector<RankPair> PairPlan::maximal_matching(std::uint64_t round) const {
  std::vector<Edge> edges = edges_;
  Rng rng = Rng(seed_).fork("topology").fork(round);
  rng.shuffle(std::span(edges));
  std::vector<bool> taken(n_, false);
  std::vector<RankPair> pairs;
  for (const Edge& edge : edges) {
    if (taken[edge.low] || taken[edge.high]) continue;
    taken[edge.low] = taken[edge.high] = true;
    pairs.push_back(pair_of(seed_, round, edge.low, edge.high));
  }
  return pairs;
}

std::vector<RankPair> PairPlan::round(std::uint64_t round) const {
  std::vector<RankPair> pairs;
  if (n_ == 1) return pairs;
  switch (topology_.kind) {
    case TopologyKind::complete:
    case TopologyKind::matching:
      return drawn_matching(n_, seed_, round);
    case TopologyKind::one_peer_exponential:
      return shifted(round);
    case TopologyKind::hypercube: {
      const std::size_t bit = std::size_t{1} << (round % period());
      for (std::size_t rank = 0; rank < n_; ++rank) {
        if ((rank & bit) == 0) pairs.push_back(pair_of(seed_, round, rank, rank | bit));
      }
      return pairs;
    }
    case TopologyKind::base_k: {
      const Mixing& mixing = rounds_[round % rounds_.size()];
      for (std::size_t rank = 0; rank < n_; ++rank) {
        if (mixing[rank].empty() || mixing[rank].front().from < rank) continue;
        pairs.push_back(pair_of(seed_, round, rank, mixing[rank].front().from));
      }
      return pairs;
    }
    default:
      return maximal_matching(round);
  }
}

Topology fitting(const Topology& topology, std::size_t n) {
  return n == 0 || problem_of(topology, n) ? Topology{} : topology;
}

std::optional<Match> topology_partner(const Topology& topology, std::uint64_t seed,
                                      std::uint64_t round, const View& view, PeerId self) {
  const Topology used = fitting(topology, view.size());
  if (used.kind == TopologyKind::complete || used.kind == TopologyKind::matching) {
    return matching_partner(seed, round, view, self);
  }
  const std::optional<std::size_t> rank = view.rank_of(self);
  if (!rank) return std::nullopt;
  for (const RankPair& pair : PairPlan(used, view.size(), seed).round(round)) {
    if (pair.initiator == *rank) return Match{view.peers()[pair.responder], true};
    if (pair.responder == *rank) return Match{view.peers()[pair.initiator], false};
  }
  return std::nullopt;
}

std::vector<PeerId> topology_neighbours(const Topology& topology, std::uint64_t seed,
                                        const View& view, PeerId self) {
  std::vector<PeerId> neighbours;
  const std::optional<std::size_t> rank = view.rank_of(self);
  if (!rank) return neighbours;
  const Topology used = fitting(topology, view.size());
  for (const Edge& edge : edges_of(used, view.size(), seed)) {
    if (edge.low == *rank) neighbours.push_back(view.peers()[edge.high]);
    if (edge.high == *rank) neighbours.push_back(view.peers()[edge.low]);
  }
  std::ranges::sort(neighbours);
  return neighbours;
}

}  // namespace gv
