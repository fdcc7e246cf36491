// The order of a ring avoids slow links: optimal for few peers, nearly optimal for many.
#include "consensus/allreduce/ring_order.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "base/rng.hpp"

namespace gv {
namespace {

using Ring = std::vector<std::size_t>;
using Matrix = std::vector<std::vector<double>>;

/// The time of the slowest link and the sum over all links. Orders are compared by the slowest link
/// first, and then by the sum.
std::pair<double, double> cost_of(const Ring& ring, const Matrix& seconds) {
  double slowest = 0;
  double sum = 0;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const double link = seconds[ring[i]][ring[(i + 1) % ring.size()]];
    slowest = std::max(slowest, link);
    sum += link;
  }
  return {slowest, sum};
}

Ring order_of(const Matrix& seconds, std::size_t exact_up_to) {
  const auto ask = [&](std::size_t from, std::size_t to) { return seconds[from][to]; };
  return ring_order(seconds.size(), ask, exact_up_to);
}

std::pair<double, double> brute_force(const Matrix& seconds) {
  Ring ring(seconds.size());
  std::iota(ring.begin(), ring.end(), std::size_t{0});
  auto best = cost_of(ring, seconds);
  while (std::next_permutation(ring.begin() + 1, ring.end())) {
    best = std::min(best, cost_of(ring, seconds));
  }
  return best;
}

bool is_ring(const Ring& ring, std::size_t peers) {
  const std::set<std::size_t> different(ring.begin(), ring.end());
  return ring.size() == peers && different.size() == peers && ring.front() == 0 &&
         *different.rbegin() == peers - 1;
}

enum class World {
  any,      ///< Every direction of every link is random, independent of all others.
  coarse,   ///< Every direction has one of only four random speeds, which gives many ties.
  uplinks,  ///< A link is as slow as the slower of the sender's uplink and the receiver's downlink.
  plane,    ///< The time of a link is the distance between two points in the plane.
};

Matrix world(World kind, std::size_t peers, Rng& rng) {
  std::vector<std::pair<double, double>> peer(peers);
  for (auto& [x, y] : peer) {
    x = std::exp(rng.normal());
    y = std::exp(rng.normal());
  }
  Matrix seconds(peers, std::vector<double>(peers));
  for (std::size_t from = 0; from < peers; ++from) {
    for (std::size_t to = 0; to < peers; ++to) {
      switch (kind) {
        case World::any:
          seconds[from][to] = std::exp(rng.normal());
          break;
        case World::coarse:
          seconds[from][to] = static_cast<double>(1 + rng.below(4));
          break;
        case World::uplinks:
          seconds[from][to] = std::max(peer[from].first, peer[to].second) + 0.1 * rng.uniform();
          break;
        case World::plane:
          seconds[from][to] =
              std::hypot(peer[from].first - peer[to].first, peer[from].second - peer[to].second);
          break;
      }
    }
  }
  return seconds;
}

/// Links along a random ring take `good`. All other links take a random time from [low, high).
Matrix planted(std::size_t peers, double good, double low, double high, Rng& rng) {
  Matrix seconds(peers, std::vector<double>(peers));
  for (auto& row : seconds) {
    for (double& link : row) link = low + (high - low) * rng.uniform();
  }
  Ring ring(peers);
  std::iota(ring.begin(), ring.end(), std::size_t{0});
  rng.shuffle(std::span(ring));
  for (std::size_t i = 0; i < peers; ++i) seconds[ring[i]][ring[(i + 1) % peers]] = good;
  return seconds;
}

constexpr std::initializer_list<World> worlds = {World::any, World::coarse, World::uplinks,
                                                 World::plane};

}  // namespace

TEST_CASE("a small ring is the best of all permutations") {
  const World kind = GENERATE(values(worlds));
  Rng rng(1);
  for (std::size_t peers = 3; peers <= 8; ++peers) {
    for (int i = 0; i < 10; ++i) {
      const Matrix seconds = world(kind, peers, rng);
      const Ring ring = order_of(seconds, 9);
      REQUIRE(is_ring(ring, peers));
      const auto [slowest, sum] = cost_of(ring, seconds);
      const auto [best_slowest, best_sum] = brute_force(seconds);
      REQUIRE(slowest == best_slowest);
      REQUIRE(sum == Approx(best_sum).epsilon(1e-12));  // The terms are added in another order.
    }
  }
}

TEST_CASE("the slowest link of a searched ring is within a tenth of the best") {
  const World kind = GENERATE(values(worlds));
  const std::size_t peers = GENERATE(9, 10);
  Rng rng(2);
  for (int i = 0; i < 50; ++i) {
    const Matrix seconds = world(kind, peers, rng);
    const Ring searched = order_of(seconds, 0);
    REQUIRE(is_ring(searched, peers));
    const double best = cost_of(order_of(seconds, 12), seconds).first;
    REQUIRE(cost_of(searched, seconds).first <= 1.1 * best);
  }
}

TEST_CASE("a ring planted among slow links is found among 32 peers") {
  Rng rng(3);
  for (int i = 0; i < 10; ++i) {
    const Matrix clear = planted(32, 1, 5, 10, rng);
    CHECK(cost_of(order_of(clear, 12), clear).first == 1);
    // One in forty of the other links is faster than the links of the ring, so always taking the
    // best link leads astray.
    const Matrix hidden = planted(32, 1, 0.9, 5, rng);
    CHECK(cost_of(order_of(hidden, 12), hidden).first == 1);
  }
}

TEST_CASE("the same links give the same ring") {
  Rng rng(4);
  for (const std::size_t peers : {6u, 12u, 13u, 40u}) {
    const Matrix seconds = world(World::coarse, peers, rng);
    CHECK(order_of(seconds, 9) == order_of(seconds, 9));
  }
}

TEST_CASE("the direction of a ring is chosen where links are faster one way") {
  // A link from a peer to the peer with the next number is faster than the reverse link.
  for (const std::size_t peers : {5u, 20u}) {
    Matrix seconds(peers, std::vector<double>(peers, 3));
    Ring expected(peers);
    std::iota(expected.begin(), expected.end(), std::size_t{0});
    for (std::size_t i = 0; i < peers; ++i) seconds[i][(i + 1) % peers] = 1;
    CHECK(order_of(seconds, 9) == expected);
  }
}

TEST_CASE("what is not a link is used only where there is no other way") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::size_t peers : {5u, 20u}) {
    for (const double none : {infinity, std::nan(""), -1.0}) {
      Matrix seconds(peers, std::vector<double>(peers, 1));
      for (std::size_t i = 0; i < peers; ++i) seconds[i][(i + 1) % peers] = none;
      const Ring ring = order_of(seconds, 9);
      CHECK(is_ring(ring, peers));
      CHECK(cost_of(ring, seconds) == std::pair(1.0, static_cast<double>(peers)));
      // Now no peer can reach peer 1, but there must still be a ring.
      for (auto& row : seconds) row[1] = none;
      CHECK(is_ring(order_of(seconds, 9), peers));
    }
  }
}

TEST_CASE("one or two peers stand in the only order there is") {
  const auto one = [](std::size_t, std::size_t) { return 1.0; };
  CHECK(ring_order(0, one).empty());
  CHECK(ring_order(1, one) == Ring{0});
  CHECK(ring_order(2, one) == Ring{0, 1});
}

}  // namespace gv
