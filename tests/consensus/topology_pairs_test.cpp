// Pairs in a topology's rounds are disjoint, along its edges, and the same on every peer.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "consensus/topology/graphs.hpp"
#include "consensus/topology/pairs.hpp"
#include "consensus/topology/spectrum.hpp"

namespace gv {
namespace {

/// Peers whose ids are far apart and unordered.
View view_of(std::size_t n, std::uint64_t stride = 7919) {
  std::vector<PeerId> peers;
  for (std::size_t i = 0; i < n; ++i) peers.push_back(PeerId{(i * stride + 13) % 100003 + 1});
  return View(peers);
}

std::vector<Topology> in_pairs() {
  std::vector<Topology> all;
  for (const TopologyKind kind : topology_kinds) {
    if (!problem_with_pairs({.kind = kind})) all.push_back({.kind = kind});
  }
  all.push_back({.kind = TopologyKind::random_regular, .degree = 3});
  return all;
}

Edge edge_of(const RankPair& pair) {
  return {std::min(pair.initiator, pair.responder), std::max(pair.initiator, pair.responder)};
}

/// The pairs that may mix in a round: neighbours in the graph, or the ends of the round's directed
/// edges.
std::set<Edge> allowed(const Topology& topology, std::size_t n, std::uint64_t seed,
                       std::uint64_t round) {
  std::set<Edge> edges;
  if (is_graph(topology.kind)) {
    for (const Edge& edge : edges_of(topology, n, seed)) edges.insert(edge);
    return edges;
  }
  const Mixing mixing = mixing_of(topology, n, seed, round);
  for (std::size_t i = 0; i < n; ++i) {
    for (const Share& share : mixing[i]) {
      edges.insert({std::min(i, share.from), std::max(i, share.from)});
    }
  }
  return edges;
}

}  // namespace

TEST_CASE("pairs of a round are disjoint and edges of the topology", "[unit][topology]") {
  for (const Topology& topology : in_pairs()) {
    for (std::size_t n = 1; n <= 40; ++n) {
      if (problem_of(topology, n)) continue;
      for (std::uint64_t round = 0; round < 20; ++round) {
        INFO(to_string(topology.kind) << " of " << n << ", round " << round);
        const std::set<Edge> edges = allowed(topology, n, 3, round);
        std::set<std::size_t> taken;
        for (const RankPair& pair : PairPlan(topology, n, 3).round(round)) {
          CHECK(edges.contains(edge_of(pair)));
          CHECK(taken.insert(pair.initiator).second);
          CHECK(taken.insert(pair.responder).second);
        }
        // No two neighbours are both without a partner. (Rounds with directed edges use only every
        // other edge.)
        if (!is_graph(topology.kind)) continue;
        const bool maximal = std::ranges::all_of(edges, [&](const Edge& edge) {
          return taken.contains(edge.low) || taken.contains(edge.high);
        });
        CHECK(maximal);
      }
    }
  }
}

TEST_CASE("both sides of a pair name each other and one of them asks", "[unit][topology]") {
  for (const Topology& topology : in_pairs()) {
    for (const std::size_t n : {1, 2, 3, 7, 8, 16, 21}) {
      const View view = view_of(n);
      for (std::uint64_t round = 0; round < 12; ++round) {
        INFO(to_string(topology.kind) << " of " << n << ", round " << round);
        for (const PeerId self : view.peers()) {
          const auto match = topology_partner(topology, 9, round, view, self);
          if (!match) continue;
          const auto back = topology_partner(topology, 9, round, view, match->partner);
          REQUIRE(back);
          CHECK(back->partner == self);
          CHECK(back->initiates != match->initiates);
        }
        CHECK_FALSE(topology_partner(topology, 9, round, view, PeerId{999999}));
      }
    }
  }
}

TEST_CASE("plans depend on the order of ids and on nothing else of them", "[unit][topology]") {
  const View one = view_of(16);
  const View other = view_of(16, 31);
  for (const Topology& topology : in_pairs()) {
    for (std::uint64_t round = 0; round < 8; ++round) {
      for (std::size_t rank = 0; rank < 16; ++rank) {
        const auto a = topology_partner(topology, 2, round, one, one.peers()[rank]);
        const auto b = topology_partner(topology, 2, round, other, other.peers()[rank]);
        INFO(to_string(topology.kind) << ", rank " << rank);
        REQUIRE(a.has_value() == b.has_value());
        if (!a) continue;
        CHECK(one.rank_of(a->partner) == other.rank_of(b->partner));
        CHECK(a->initiates == b->initiates);
      }
    }
  }
}

TEST_CASE("the complete topology draws the matchings there have always been", "[unit][topology]") {
  for (const std::size_t n : {2, 5, 8}) {
    const View view = view_of(n);
    for (std::uint64_t round = 0; round < 20; ++round) {
      for (const PeerId self : view.peers()) {
        const auto match = topology_partner({}, 4, round, view, self);
        const auto drawn = matching_partner(4, round, view, self);
        REQUIRE(match.has_value() == drawn.has_value());
        if (!match) continue;
        CHECK(match->partner == drawn->partner);
        CHECK(match->initiates == drawn->initiates);
      }
    }
  }
}

TEST_CASE("a swarm that a hypercube no longer fits meets as a complete one", "[unit][topology]") {
  const Topology cube{.kind = TopologyKind::hypercube};
  const View seven = view_of(7);
  CHECK(fitting(cube, 8) == cube);
  CHECK(fitting(cube, 7) == Topology{});
  for (const PeerId self : seven.peers()) {
    const auto match = topology_partner(cube, 4, 1, seven, self);
    const auto drawn = matching_partner(4, 1, seven, self);
    REQUIRE(match.has_value() == drawn.has_value());
    if (match) CHECK(match->partner == drawn->partner);
    CHECK(topology_neighbours(cube, 4, seven, self).size() == 6);
  }
}

TEST_CASE("rounds that follow each other are exact in pairs where the number is a power of two",
          "[unit][topology]") {
  for (const TopologyKind kind :
       {TopologyKind::hypercube, TopologyKind::one_peer_exponential, TopologyKind::base_k}) {
    for (const std::size_t n : {2, 4, 8, 16, 32}) {
      INFO(to_string(kind) << " of " << n);
      const Contraction left = pair_contraction({.kind = kind}, n, 6);
      CHECK(left.left < 1e-12);
      CHECK(left.rounds == static_cast<std::size_t>(std::log2(n) + 0.5));
    }
  }
}

TEST_CASE("any lg n rounds of one-peer exponential pairs are exact for powers of two",
          "[unit][topology]") {
  for (const std::size_t n : {2, 4, 8, 16, 32}) {
    const PairPlan plan({.kind = TopologyKind::one_peer_exponential}, n, 11);
    for (std::uint64_t first = 0; first < 12; ++first) {
      std::vector<double> x(n, 0);
      x[n / 3] = 1;
      for (std::uint64_t round = first; round < first + plan.period(); ++round) {
        for (const auto& [a, b] : plan.round(round)) x[a] = x[b] = (x[a] + x[b]) / 2;
      }
      INFO(n << " peers, from round " << first);
      for (const double value : x) CHECK(value == 1 / static_cast<double>(n));
    }
  }
}

TEST_CASE("nobody is left over at one distance for ever", "[unit][topology]") {
  for (const std::size_t n : {3, 6, 7, 12}) {
    const PairPlan plan({.kind = TopologyKind::one_peer_exponential}, n, 11);
    for (std::size_t t = 0; t < plan.period(); ++t) {
      std::set<std::size_t> paired;
      for (std::uint64_t period = 0; period < 60; ++period) {
        for (const auto& [a, b] : plan.round(period * plan.period() + t)) paired.insert({a, b});
      }
      INFO(n << " peers, distance " << (1 << t));
      CHECK(paired.size() == n);
    }
  }
}

TEST_CASE("one-peer exponential pairs contract as their mean square says for any number",
          "[unit][topology]") {
  // For every x, E|x'|^2 / |x|^2 over a period is at most the norm of E[W'W]. Averaged over random
  // x, it is the trace divided by n-1, which lies between the norm and 1/(n-1) of the norm.
  for (const std::size_t n : {5, 6, 12, 20}) {
    const Contraction left = pair_contraction({.kind = TopologyKind::one_peer_exponential}, n, 4);
    const PairPlan plan({.kind = TopologyKind::one_peer_exponential}, n, 4);
    double squares = 0;
    constexpr int periods = 4000;
    for (std::uint64_t period = 0; period < periods; ++period) {
      Rng rng(period);
      std::vector<double> x(n);
      double mean = 0;
      for (double& value : x) mean += (value = rng.normal()) / static_cast<double>(n);
      double before = 0;
      double after = 0;
      for (double& value : x) before += (value - mean) * (value - mean);
      for (std::size_t t = 0; t < left.rounds; ++t) {
        for (const auto& [a, b] : plan.round(period * left.rounds + t)) {
          x[a] = x[b] = (x[a] + x[b]) / 2;
        }
      }
      for (double& value : x) after += (value - mean) * (value - mean);
      squares += after / before / periods;
    }
    const double norm = left.left * left.left;
    INFO(n << ": " << squares << " in the mean, norm " << norm);
    CHECK(squares < 1.02 * norm);
    CHECK(squares > 0.98 * norm / static_cast<double>(n - 1));
  }
}

TEST_CASE("every edge of a graph is a pair now and then", "[unit][topology]") {
  for (const Topology& topology : in_pairs()) {
    if (!is_graph(topology.kind)) continue;
    const PairPlan plan(topology, 8, 1);
    std::set<Edge> seen;
    for (std::uint64_t round = 0; round < 600; ++round) {
      for (const RankPair& pair : plan.round(round)) seen.insert(edge_of(pair));
    }
    const std::vector<Edge> edges = edges_of(topology, 8, 1);
    INFO(to_string(topology.kind));
    CHECK(std::vector<Edge>(seen.begin(), seen.end()) == edges);
  }
}

TEST_CASE("each side of a pair asks about half of the time", "[unit][topology]") {
  for (const Topology& topology : in_pairs()) {
    const PairPlan plan(topology, 2, 1);
    std::map<std::size_t, int> asked;
    int rounds = 0;
    for (std::uint64_t round = 0; round < 2000; ++round) {
      for (const RankPair& pair : plan.round(round)) ++asked[pair.initiator];
      ++rounds;
    }
    INFO(to_string(topology.kind) << ": " << asked[0] << " of " << rounds);
    CHECK(std::abs(asked[0] - rounds / 2) < 3 * std::sqrt(rounds) / 2);
  }
}

TEST_CASE("a star has one pair a round and a ring some seven eighths of its peers in pairs",
          "[unit][topology]") {
  const PairPlan star({.kind = TopologyKind::star}, 12, 1);
  const PairPlan ring({.kind = TopologyKind::ring}, 64, 1);
  double paired = 0;
  for (std::uint64_t round = 0; round < 2000; ++round) {
    CHECK(star.round(round).size() == 1);
    paired += 2 * static_cast<double>(ring.round(round).size());
  }
  // Random sequential parking of pairs on a line covers 1 - e^-2 = 0.8647 of the line (Flory 1939).
  // A ring of 64 behaves like a line, and over 2000 rounds the error is about 0.0006.
  CHECK(paired / (2000 * 64) == Approx(1 - std::exp(-2.0)).margin(0.003));
}

TEST_CASE("the contraction of drawn pairs is that of the formulas", "[unit][topology]") {
  // With E[L] the mean Laplacian of a round, the second eigenvalue of E[W'W] is 1 - l/2, where l is
  // the smallest positive eigenvalue of E[L]. A star uses each edge with probability 1/(n-1), and
  // the l of the star itself is 1. All maximal matchings of a ring of 4 or 5 have 2 edges, so each
  // edge has probability 1/2 or 2/5. The l of a ring itself is 2 - 2 cos(2 pi / n). These values
  // are exact. On a long ring pairs cover 1 - e^-2 of the peers (Flory 1939).
  const auto second = [](TopologyKind kind, std::size_t n) {
    return std::pow(pair_contraction({.kind = kind}, n, 1).left, 2);
  };
  const auto of_ring = [](double chance, double n) {
    return 1 - 0.5 * chance * (2 - 2 * std::cos(2 * 3.14159265358979324 / n));
  };
  for (const std::size_t n : {3, 6, 12, 64}) {
    CHECK(second(TopologyKind::star, n) ==
          Approx(1 - 0.5 / static_cast<double>(n - 1)).margin(1e-12));
  }
  CHECK(second(TopologyKind::ring, 4) == Approx(of_ring(0.5, 4)).margin(1e-12));
  CHECK(second(TopologyKind::ring, 5) == Approx(of_ring(0.4, 5)).margin(1e-12));
  const double long_ring = second(TopologyKind::ring, 40);
  CHECK((1 - long_ring) / (1 - of_ring((1 - std::exp(-2.0)) / 2, 40)) == Approx(1).margin(2e-3));
  for (const std::size_t n : {2, 5, 8}) {
    const double size = static_cast<double>(n);
    const double wanted = n % 2 == 0 ? (size - 2) / (2 * (size - 1)) : 0.5;
    CHECK(second(TopologyKind::complete, n) == Approx(wanted).margin(1e-12));
    CHECK(distance_to_mean(expected_square_of_pairs({.kind = TopologyKind::matching}, n, 1, 1)) ==
          Approx(wanted).margin(1e-12));
  }
}

TEST_CASE("edges that are held to be alike are drawn alike often", "[unit][topology]") {
  // Each count is binomial, so for every edge it is within 4 standard deviations of its mean.
  for (const TopologyKind kind :
       {TopologyKind::ring, TopologyKind::star, TopologyKind::exponential, TopologyKind::torus}) {
    for (const std::size_t n : {9, 12}) {
      const Topology topology{.kind = kind};
      constexpr double rounds = 20000;
      const PairPlan plan(topology, n, 3);
      std::map<Edge, double> counts;
      for (std::uint64_t round = 0; round < rounds; ++round) {
        for (const RankPair& pair : plan.round(round)) counts[edge_of(pair)] += 1;
      }
      // Off the diagonal, M is half of the edge's probability.
      const SquareMatrix m = expected_square_of_pairs(topology, n, 3, 20000);
      for (const Edge& edge : edges_of(topology, n, 3)) {
        const double chance = 2 * m.at(edge.low, edge.high);
        INFO(to_string(kind) << " of " << n << ", edge " << edge.low << "-" << edge.high << ": "
                             << counts[edge] / rounds << " for " << chance);
        CHECK(std::abs(counts[edge] / rounds - chance) <
              4 * std::sqrt(chance * (1 - chance) / rounds));
      }
    }
  }
}

TEST_CASE("neighbours are those of the graph by id", "[unit][topology]") {
  const View view = view_of(8);
  const std::vector<PeerId>& ids = view.peers();
  const auto of_ring = topology_neighbours({.kind = TopologyKind::ring}, 1, view, ids[0]);
  CHECK(of_ring == std::vector<PeerId>{ids[1], ids[7]});
  CHECK(topology_neighbours({.kind = TopologyKind::star}, 1, view, ids[3]) ==
        std::vector<PeerId>{ids[0]});
  CHECK(topology_neighbours({}, 1, view, ids[3]).size() == 7);
  CHECK(topology_neighbours({}, 1, view, PeerId{999999}).empty());
  CHECK(topology_neighbours({}, 1, View({ids[0]}), ids[0]).empty());
}

TEST_CASE("what pairs cannot do is refused with what to take instead", "[unit][topology]") {
  const auto groups = problem_with_pairs({.kind = TopologyKind::moshpit});
  REQUIRE(groups);
  CHECK(to_string(*groups) ==
        "moshpit: its groups average all at once, and an exchange has two ends; take hypercube "
        "(the same with groups of two), base_k or torus");
  const auto several = problem_with_pairs({.kind = TopologyKind::base_k, .degree = 3});
  REQUIRE(several);
  CHECK(to_string(*several) ==
        "base_k: with k = 3 a peer has several partners at once, and an exchange has two ends; "
        "take k = 1");
  CHECK_FALSE(problem_with_pairs({.kind = TopologyKind::base_k}));
  CHECK_FALSE(problem_with_pairs({.kind = TopologyKind::star}));
}

}  // namespace gv
