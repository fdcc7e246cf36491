// Mixing matrices have the weights, gaps and periods given in the papers, for any number of peers.
#include "consensus/topology/topology.hpp"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "consensus/topology/base_k.hpp"
#include "consensus/topology/graphs.hpp"
#include "consensus/topology/spectrum.hpp"

namespace gv {
namespace {

constexpr double pi = 3.14159265358979323846;

using Numbers = std::map<std::size_t, double>;

/// Compares spectral gaps with published figures, whose six digits set the tolerance.
void check_gaps(TopologyKind kind, const Numbers& golden) {
  for (const auto& [n, gap] : golden) {
    INFO(to_string(kind) << " of " << n);
    CHECK(spectral_gap({.kind = kind}, n) == Approx(gap).margin(5.1e-7));
  }
}

double ceil_log2(std::size_t n) { return std::bit_width(n - 1); }

/// All kinds, with all values of the parameters that make a difference.
std::vector<Topology> all_topologies() {
  std::vector<Topology> all;
  for (const TopologyKind kind : topology_kinds) {
    all.push_back({.kind = kind});
    all.push_back({.kind = kind, .lazy = true});
  }
  for (std::size_t k = 2; k <= 4; ++k) {
    all.push_back({.kind = TopologyKind::base_k, .degree = k});
    all.push_back({.kind = TopologyKind::random_regular, .degree = k});
  }
  all.push_back({.kind = TopologyKind::moshpit, .dimensions = 1});
  all.push_back({.kind = TopologyKind::moshpit, .dimensions = 3});
  return all;
}

std::string name_of(const Topology& topology, std::size_t n) {
  return std::string(to_string(topology.kind)) + " of " + std::to_string(n) + ", degree " +
         std::to_string(topology.degree) + ", dimensions " + std::to_string(topology.dimensions) +
         (topology.lazy ? ", lazy" : "");
}

/// Calls `check_one` for every topology and every n up to `most` that fits it.
template <class Check>
void for_all_that_fit(std::size_t most, const Check& check_one) {
  for (const Topology& topology : all_topologies()) {
    for (std::size_t n = 1; n <= most; ++n) {
      if (problem_of(topology, n)) continue;
      INFO(name_of(topology, n));
      check_one(topology, n);
    }
  }
}

/// The pairs of a round as text, for example "0-1 2-3". A weight other than 1/2 is appended.
std::string pairs_text(const Mixing& round) {
  std::string text;
  for (std::size_t i = 0; i < round.size(); ++i) {
    for (const Share& share : round[i]) {
      if (share.from < i) continue;
      text += (text.empty() ? "" : " ") + std::to_string(i) + "-" + std::to_string(share.from);
      if (share.weight != 0.5) text += "*" + std::to_string(share.weight).substr(0, 3);
    }
  }
  return text;
}

}  // namespace

// ---- Published figures ----

TEST_CASE("gaps of rings are those of the formula and of the tables", "[unit][topology]") {
  check_gaps(TopologyKind::ring,
             {{4, 0.666667}, {8, 0.195262}, {16, 0.050747}, {32, 0.012810}, {64, 0.003210}});
  for (std::size_t n = 3; n <= 64; ++n) {
    // The eigenvalues are (1 + 2 cos(2 pi k / n)) / 3. Apart from 1 itself, the one farthest from 0
    // is that of k = 1 or, on the smallest rings, the lowest.
    const auto at = [n](std::size_t k) {
      return (1 + 2 * std::cos(2 * pi * static_cast<double>(k) / static_cast<double>(n))) / 3;
    };
    const double largest = std::max(std::abs(at(1)), std::abs(at(n / 2)));
    INFO(n);
    CHECK(std::abs(spectral_gap({.kind = TopologyKind::ring}, n) - (1 - largest)) < 1e-9);
    if (n < 5) continue;
    const double formula = 2.0 / 3 * (1 - std::cos(2 * pi / static_cast<double>(n)));
    CHECK(std::abs(spectral_gap({.kind = TopologyKind::ring}, n) - formula) < 1e-9);
  }
}

TEST_CASE("gaps of exponential graphs are those of the formula and of the tables",
          "[unit][topology]") {
  check_gaps(TopologyKind::exponential, {{4, 0.666667},
                                         {6, 0.5},
                                         {8, 0.5},
                                         {12, 0.4},
                                         {16, 0.4},
                                         {24, 0.333333},
                                         {32, 0.333333},
                                         {64, 0.285714}});
  for (std::size_t n = 2; n <= 64; n += 2) {  // The formula is from Ying 2021, for even n.
    INFO(n);
    CHECK(std::abs(spectral_gap({.kind = TopologyKind::exponential}, n) - 2 / (1 + ceil_log2(n))) <
          1e-9);
  }
}

TEST_CASE("gaps of hypercubes and stars and tori are those of the tables", "[unit][topology]") {
  check_gaps(TopologyKind::hypercube, {{4, 0.666667}, {8, 0.5}, {16, 0.4}, {32, 0.333333}});
  check_gaps(TopologyKind::torus, {{9, 0.6}, {16, 0.4}, {25, 0.276393}, {64, 0.117157}});
  for (std::size_t n = 2; n <= 64; ++n) {
    INFO(n);
    if (n > 2) CHECK(std::abs(spectral_gap({.kind = TopologyKind::star}, n) - 1.0 / n) < 1e-9);
    CHECK(std::abs(spectral_gap({.kind = TopologyKind::complete}, n) - 1) < 1e-9);
    if (!std::has_single_bit(n) || n < 4) continue;
    CHECK(std::abs(spectral_gap({.kind = TopologyKind::hypercube}, n) - 2 / (1 + ceil_log2(n))) <
          1e-9);
  }
}

TEST_CASE("a chain with Metropolis weights has the gap of a ring twice as long",
          "[unit][topology]") {
  const Numbers golden = {{4, 0.195262}, {8, 0.050747}, {16, 0.012810}, {32, 0.003210}};
  for (const auto& [n, gap] : golden) {
    std::vector<Edge> chain;
    for (std::size_t rank = 0; rank + 1 < n; ++rank) chain.push_back({rank, rank + 1});
    const double found = 1 - distance_to_mean(mixing_matrix(metropolis(n, chain)));
    CHECK(found == Approx(gap).margin(5.1e-7));
    CHECK(std::abs(found - spectral_gap({.kind = TopologyKind::ring}, 2 * n)) < 1e-9);
  }
}

TEST_CASE("one-peer exponential rounds are exact for powers of two and for no other number",
          "[unit][topology]") {
  const Topology topology{.kind = TopologyKind::one_peer_exponential};
  const Numbers golden = {{5, 0.2023},  {6, 0.2165},  {7, 0.1250},  {9, 0.1175},
                          {10, 0.1924}, {12, 0.2091}, {24, 0.2073}, {25, 0.1921}};
  for (std::size_t n = 2; n <= 64; ++n) {
    const Contraction left = contraction_of(topology, n, 0);
    INFO(n << " leaves " << left.left);
    CHECK(left.rounds == static_cast<std::size_t>(ceil_log2(n)));
    if (std::has_single_bit(n)) {
      CHECK(left.left < 1e-12);
    } else {
      CHECK(left.left > 0.01);
      CHECK(traits_of(topology, n).exact_after == 0);
    }
    if (golden.contains(n)) CHECK(left.left == Approx(golden.at(n)).margin(5.1e-5));
  }
}

TEST_CASE("the Base-2 graph of five peers is the published one", "[unit][topology]") {
  const std::vector<Mixing> rounds = base_k_rounds(5, 1);
  REQUIRE(rounds.size() == 5);
  CHECK(pairs_text(rounds[0]) == "0-1 2-3");
  CHECK(pairs_text(rounds[1]) == "0-2 1-3");
  CHECK(pairs_text(rounds[2]) == "0-1 3-4*0.8");
  CHECK(pairs_text(rounds[3]) == "0-1 2-3");
  CHECK(pairs_text(rounds[4]) == "0-2 1-3");
  CHECK(std::abs(own_share(rounds[2], 3) - 0.2) < 1e-15);
  CHECK(std::abs(own_share(rounds[2], 4) - 0.2) < 1e-15);
}

TEST_CASE("Base-k graphs have the published lengths", "[unit][topology]") {
  const std::vector<std::size_t> n = {3, 5, 6, 7, 9, 10, 12, 15, 16, 20, 24, 25, 32, 48, 64};
  const std::vector<std::vector<std::size_t>> lengths = {
      {3, 5, 4, 5, 7, 6, 5, 7, 4, 7, 6, 9, 5, 7, 6},
      {1, 3, 2, 4, 2, 4, 3, 4, 4, 5, 4, 6, 5, 5, 6},
      {1, 3, 2, 3, 2, 4, 2, 4, 2, 4, 3, 5, 3, 3, 3}};
  for (std::size_t k = 1; k <= lengths.size(); ++k) {
    for (std::size_t i = 0; i < n.size(); ++i) {
      INFO("n = " << n[i] << ", k = " << k);
      CHECK(base_k_rounds(n[i], k).size() == lengths[k - 1][i]);
    }
  }
}

TEST_CASE("Base-k graphs give any number of peers the exact mean within the bound",
          "[unit][topology]") {
  for (std::size_t k = 1; k <= 4; ++k) {
    for (std::size_t n = 2; n <= 128; ++n) {
      const Topology topology{.kind = TopologyKind::base_k, .degree = k};
      INFO("n = " << n << ", k = " << k);
      const std::size_t rounds = period_of(topology, n);
      CHECK(static_cast<double>(rounds) <=
            2 * std::log(n) / std::log(static_cast<double>(k + 1)) + 2 + 1e-9);
      const SquareMatrix product = product_of_rounds(topology, n, 0, rounds);
      double worst = 0;
      for (const double value : product.values) {
        worst = std::max(worst, std::abs(value - 1 / static_cast<double>(n)));
      }
      CHECK(worst < 1e-12);
      for (const Mixing& round : base_k_rounds(n, k)) {
        for (const auto& row : round) REQUIRE(row.size() <= k);
      }
    }
  }
}

TEST_CASE("a grid is exact after its dimensions where all its lines are full", "[unit][topology]") {
  for (const auto& [n, dimensions] : std::vector<std::pair<std::size_t, std::size_t>>{
           {64, 2}, {64, 3}, {27, 3}, {6, 2}, {8, 9}}) {
    const Topology topology{.kind = TopologyKind::moshpit, .dimensions = dimensions};
    INFO(n << " in " << dimensions);
    CHECK(contraction_of(topology, n, 0).left < 1e-12);
    CHECK(traits_of(topology, n).exact_after == period_of(topology, n));
  }
  CHECK(period_of({.kind = TopologyKind::moshpit, .dimensions = 3}, 64) == 3);
  CHECK(period_of({.kind = TopologyKind::moshpit, .dimensions = 9}, 8) == 3);
  CHECK(contraction_of({.kind = TopologyKind::moshpit}, 7, 0).left > 0.01);
}

TEST_CASE("a lazy matrix has half the gap of its own and no eigenvalue below zero",
          "[unit][topology]") {
  // The second-largest eigenvalue lambda becomes (1 + lambda)/2. The lowest eigenvalue of the ring
  // of 16 changes from -1/3 to 1/3 and does not matter.
  const Topology lazy{.kind = TopologyKind::ring, .lazy = true};
  CHECK(std::abs(spectral_gap(lazy, 16) - spectral_gap({.kind = TopologyKind::ring}, 16) / 2) <
        1e-9);
  // For n = 4 the eigenvalues are 1, 1/3, 1/3 and -1/3. In the lazy matrix they are 1, 2/3, 2/3 and
  // 1/3, so the gap is 1 - 2/3.
  CHECK(std::abs(spectral_gap(lazy, 4) - 1.0 / 3) < 1e-9);
}

TEST_CASE("the mean square of a drawn matching is that of its formula", "[unit][topology]") {
  for (const std::size_t n : {2, 3, 4, 7, 16}) {
    const double size = static_cast<double>(n);
    const double wanted = n % 2 == 0 ? (size - 2) / (2 * (size - 1)) : 0.5;
    const double left = contraction_of({.kind = TopologyKind::matching}, n, 0).left;
    CHECK(std::abs(left * left - wanted) < 1e-12);
  }
}

// ---- Laws of all topologies ----

TEST_CASE("every round of every topology keeps the mean", "[unit][topology]") {
  for_all_that_fit(40, [](const Topology& topology, std::size_t n) {
    const Traits traits = traits_of(topology, n);
    for (std::size_t t = 0; t < std::max<std::size_t>(3, period_of(topology, n)); ++t) {
      const Mixing round = mixing_of(topology, n, 5, t);
      REQUIRE(round.size() == n);
      const SquareMatrix w = mixing_matrix(round);
      for (std::size_t i = 0; i < n; ++i) {
        double row = 0;
        double column = 0;
        for (std::size_t j = 0; j < n; ++j) {
          row += w.at(i, j);
          column += w.at(j, i);
          REQUIRE(w.at(i, j) >= -1e-15);
          if (traits.symmetric) REQUIRE(w.at(i, j) == Approx(w.at(j, i)).margin(1e-15));
        }
        REQUIRE(std::abs(row - 1) < 1e-12);
        REQUIRE(std::abs(column - 1) < 1e-12);
        REQUIRE(round[i].size() <= traits.degree);
        REQUIRE(std::ranges::is_sorted(round[i], {}, &Share::from));
      }
    }
  });
}

TEST_CASE("traits say what the matrices do", "[unit][topology]") {
  for_all_that_fit(40, [](const Topology& topology, std::size_t n) {
    if (topology.kind == TopologyKind::matching && n > 2) return;
    const Traits traits = traits_of(topology, n);
    const std::size_t period = period_of(topology, n);
    bool symmetric = true;
    for (std::size_t t = 0; t < period; ++t) {
      const SquareMatrix w = mixing_matrix(mixing_of(topology, n, 5, t));
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          symmetric = symmetric && std::abs(w.at(i, j) - w.at(j, i)) < 1e-12;
        }
      }
    }
    CHECK(symmetric == traits.symmetric);
    const double left = contraction_of(topology, n, 5).left;
    INFO("leaves " << left << ", exact after " << traits.exact_after);
    CHECK((left < 1e-12) == (traits.exact_after > 0));
    CHECK(left < 1);  // The topology is connected, and does more than swap models.
    if (traits.exact_after > 0) CHECK(traits.exact_after == period);
  });
}

TEST_CASE("rounds begin again after their period", "[unit][topology]") {
  for_all_that_fit(24, [](const Topology& topology, std::size_t n) {
    const std::size_t period = period_of(topology, n);
    if (period == 0) return;
    for (std::size_t t = 0; t < 3; ++t) {
      CHECK(mixing_of(topology, n, 5, t) == mixing_of(topology, n, 5, t + 7 * period));
    }
  });
}

TEST_CASE("random regular graphs have the degree asked for and differ by seed",
          "[unit][topology]") {
  for (const std::size_t degree : {2, 3, 4, 7}) {
    for (std::size_t n = degree + 1; n <= 40; ++n) {
      const Topology topology{.kind = TopologyKind::random_regular, .degree = degree};
      if (problem_of(topology, n)) continue;
      for (std::uint64_t seed = 0; seed < 5; ++seed) {
        std::vector<std::size_t> degrees(n, 0);
        for (const Edge& edge : edges_of(topology, n, seed)) {
          REQUIRE(edge.low < edge.high);
          ++degrees[edge.low];
          ++degrees[edge.high];
        }
        INFO(n << " of degree " << degree);
        CHECK(std::ranges::all_of(degrees, [&](std::size_t d) { return d == degree; }));
      }
    }
  }
  const Topology four{.kind = TopologyKind::random_regular, .degree = 4};
  CHECK(edges_of(four, 20, 1) == edges_of(four, 20, 1));
  CHECK(edges_of(four, 20, 1) != edges_of(four, 20, 2));
  // Friedman 2008: nearly all random regular graphs of degree d have a second adjacency eigenvalue
  // of about 2 sqrt(d - 1).
  const double usual = 1 - (1 + 2 * std::sqrt(3.0)) / 5;
  CHECK(spectral_gap(four, 200, 3) == Approx(usual).margin(0.03));
}

TEST_CASE("a torus is as square as can be and a ring where the number is prime",
          "[unit][topology]") {
  CHECK(torus_rows(12) == 3);
  CHECK(torus_rows(16) == 4);
  CHECK(torus_rows(15) == 3);
  CHECK(torus_rows(13) == 1);
  for (const std::size_t prime : {2, 3, 5, 7, 13}) {
    CHECK(edges_of({.kind = TopologyKind::torus}, prime, 0) ==
          edges_of({.kind = TopologyKind::ring}, prime, 0));
  }
}

// ---- Names and refusals ----

TEST_CASE("every kind has a name that finds it", "[unit][topology]") {
  for (const TopologyKind kind : topology_kinds) {
    CHECK(topology_names.find(to_string(kind)) == kind);
  }
  CHECK_FALSE(topology_names.find("rng"));
  CHECK(to_string(TopologyKind::complete) == "complete");
  CHECK(to_string(TopologyKind::base_k) == "base_k");
  CHECK(to_string(TopologyKind::moshpit) == "moshpit");
  CHECK(to_string(TopologyKind::one_peer_exponential) == "one_peer_exponential");
}

TEST_CASE("numbers that do not fit are refused in one sentence with what would do",
          "[unit][topology]") {
  const auto text = [](const Topology& topology, std::size_t n) {
    const auto problem = problem_of(topology, n);
    return problem ? to_string(*problem) : std::string();
  };
  CHECK(text({.kind = TopologyKind::hypercube}, 6) ==
        "hypercube of 6 peers: a hypercube needs a power of two, and 6 is none; take 4 or 8 peers, "
        "or exponential or base_k, which fit any number");
  CHECK(text({.kind = TopologyKind::random_regular, .degree = 3}, 15) ==
        "random_regular of 15 peers: 15 peers with 3 neighbours each have no whole number of "
        "edges; take degree 2 or 4, or an even number of peers");
  CHECK(text({.kind = TopologyKind::random_regular, .degree = 1}, 6) ==
        "random_regular of 6 peers: with one neighbour each they fall into pairs that never meet "
        "the others; take degree 2 or more");
  CHECK(text({.kind = TopologyKind::moshpit, .dimensions = 0}, 6) ==
        "moshpit of 6 peers: a grid has at least one dimension; take 2");
  for (std::size_t n = 1; n <= 40; ++n) {
    for (const TopologyKind kind : topology_kinds) {
      INFO(to_string(kind) << " of " << n);
      const bool fits = kind != TopologyKind::hypercube || std::has_single_bit(n);
      CHECK(text({.kind = kind}, n).empty() == fits);
    }
  }
}

}  // namespace gv
