// Rounds inside and between hosts keep the mean, and reduce the spread as the formulas say.
#include "consensus/topology/hosts.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "consensus/topology/spectrum.hpp"
#include "consensus/topology/topology.hpp"
#include "tests/consensus/mixing_lab.hpp"

namespace gv {
namespace {

using Vector = MixingLab::Vector;
using Hosts = std::vector<std::size_t>;

constexpr std::size_t every = 3;
constexpr std::uint64_t between = 1;  // Number of the first round between hosts.

Vector after(const Mixing& round, const Vector& x) {
  Vector result = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (const Share& share : round[i]) result[i] += share.weight * (x[share.from] - x[i]);
  }
  return result;
}

/// The fraction of the squared spread of the hosts' means that remains after a round between hosts.
double left_of_spread(std::size_t hosts, std::size_t peers_each) {
  constexpr std::uint64_t draws = 40000;
  Hosts numbers;
  for (std::size_t i = 0; i < hosts * peers_each; ++i) numbers.push_back(i / peers_each);
  Rng rng(5);
  double left = 0;
  for (std::uint64_t draw = 0; draw < draws; ++draw) {
    Vector means(hosts);
    for (double& mean : means) mean = rng.normal();
    Vector x;
    for (const std::size_t host : numbers) x.push_back(means[host]);
    const Vector y = after(hosts_round(numbers, every, 7, between + every * draw), x);
    const auto spread = [&](const Vector& values) {
      double mean = 0;
      double squares = 0;
      for (const double value : values) mean += value / static_cast<double>(values.size());
      for (const double value : values) squares += (value - mean) * (value - mean);
      return squares;
    };
    left += spread(y) / spread(x) / static_cast<double>(draws);
  }
  return left;
}

}  // namespace

TEST_CASE("peers are on one host if their addresses differ in the port alone", "[unit][topology]") {
  const std::vector<std::string_view> addresses = {"a:1", "b:1", "a:2", "", "", "[::1]:5", "b:9"};
  std::vector<std::uint64_t> keys;
  for (const std::string_view address : addresses) keys.push_back(host_key(address));
  CHECK(host_numbers(keys) == Hosts{0, 1, 0, 2, 3, 4, 1});
}

TEST_CASE("hosts of three peers and one with models 0 and 4 both come to 1", "[unit][topology]") {
  const Hosts hosts = {0, 1, 0, 0};
  CHECK(after(hosts_round(hosts, every, 1, between), {0, 4, 0, 0}) == Vector{1, 1, 1, 1});
}

TEST_CASE("any two hosts have the mean of their peers after a round between and one inside",
          "[unit][topology]") {
  for (std::size_t a = 1; a <= 6; ++a) {
    for (std::size_t b = 1; b <= 6; ++b) {
      Hosts hosts(a, 0);
      hosts.resize(a + b, 1);
      Vector x(a, 0);
      x.resize(a + b, 1);
      x = after(hosts_round(hosts, every, 1, between), x);
      x = after(hosts_round(hosts, every, 1, between + 1), x);
      INFO(a << " and " << b);
      for (const double value : x) {
        CHECK(std::abs(value - static_cast<double>(b) / static_cast<double>(a + b)) < rounding);
      }
    }
  }
}

TEST_CASE("rounds of hosts are symmetric and their rows sum to 1 with no negative weight",
          "[unit][topology]") {
  Rng rng(3);
  for (int draw = 0; draw < 200; ++draw) {
    Hosts hosts(1 + rng.below(12));
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      std::size_t most = 0;
      for (std::size_t k = 0; k < i; ++k) most = std::max(most, hosts[k] + 1);
      hosts[i] = rng.below(most + 1);
    }
    for (std::uint64_t round = 0; round < 2 * every; ++round) {
      const SquareMatrix w = mixing_matrix(hosts_round(hosts, every, 9, round));
      for (std::size_t i = 0; i < w.n; ++i) {
        CHECK(w.at(i, i) > -rounding);
        for (std::size_t k = 0; k < i; ++k) CHECK(std::abs(w.at(i, k) - w.at(k, i)) < rounding);
      }
    }
  }
}

// A random matching of an even number of equal hosts leaves (1 - 1 / (hosts - 1)) / 2 of the
// spread. With four hosts the fraction left is distributed as Beta(1/2, 1), so the standard error
// over 40,000 draws is 0.0015. With eight hosts it is smaller.
TEST_CASE("drawn pairs of equal hosts leave the share of the spread that is known",
          "[unit][topology]") {
  CHECK(left_of_spread(4, 2) == Approx(1.0 / 3).margin(0.006));
  CHECK(left_of_spread(8, 3) == Approx(3.0 / 7).margin(0.006));
}

TEST_CASE("the traits of rounds between hosts do not take all rounds to find", "[unit][topology]") {
  for (const std::uint32_t period : {3U, 16U}) {
    std::size_t degree = 0;
    for (std::uint64_t round = 0; round < period; ++round) {
      for (const auto& row :
           mixing_of({.kind = TopologyKind::hosts, .hosts_every = period}, 9, 0, round)) {
        degree = std::max(degree, row.size());
      }
    }
    CHECK(traits_of({.kind = TopologyKind::hosts, .hosts_every = period}, 9).degree == degree);
  }
  // traits_of() must not go through all rounds, which would take hours.
  const Traits rare = traits_of({.kind = TopologyKind::hosts, .hosts_every = 1'000'000}, 512);
  CHECK(rare.degree == 255);
  CHECK(rare.exact_after == 1'000'000);
}

TEST_CASE("peers of one host take the steps of the mean gradient", "[unit]") {
  const auto targets = drawn_models(3, 4, 2);
  const auto gradient = pulls_to(targets);
  MixingLab lab({.topology = {.kind = TopologyKind::hosts}}, std::vector<Vector>(3, Vector(4, 1)),
                1, {}, {0, 0, 0});
  Vector serial(4, 1);
  for (int step = 0; step < 20; ++step) {
    lab.round(gradient, 0.1);
    Vector mean(4, 0);
    for (std::size_t peer = 0; peer < 3; ++peer) {
      const Vector one = gradient(peer, serial);
      for (std::size_t k = 0; k < 4; ++k) mean[k] += one[k] / 3;
    }
    for (std::size_t k = 0; k < 4; ++k) serial[k] -= 0.1 * mean[k];
  }
  for (const Vector& x : lab.models()) CHECK(largest_difference(x, serial) < rounding);
}

TEST_CASE("where every peer has a host of its own a round inside changes nothing", "[unit]") {
  MixingLab lab({.topology = {.kind = TopologyKind::hosts, .hosts_every = 3}}, drawn_models(4, 5),
                1, {}, {0, 1, 2, 3});
  const auto before = lab.models();
  lab.round({}, 0);
  CHECK(lab.models() == before);
  const double spread = lab.spread_squared();
  lab.round({}, 0);
  CHECK(lab.spread_squared() < 0.9 * spread);
}

}  // namespace gv
