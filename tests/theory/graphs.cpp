// T1 to T4: spectral gaps, and products of rounds compared with the exact mean.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "consensus/mixing/round_plan.hpp"
#include "consensus/topology/spectrum.hpp"
#include "tests/theory/lab.hpp"
#include "tests/theory/rows.hpp"

namespace gv::theory {
namespace {

/// ln of the fraction of the squared spread that a round of mixers leaves, averaged over 200
/// rounds. These rounds begin once only the slowest direction is left.
double decay(TopologyKind kind, std::size_t peers, std::size_t before) {
  constexpr std::size_t rounds = 200;
  Lab lab({.topology = {.kind = kind}}, drawn_models(peers, 2, 7));
  for (std::size_t i = 0; i < before; ++i) {
    lab.round();
    lab.rescale();
  }
  double sum = 0;
  for (std::size_t i = 0; i < rounds; ++i) {
    lab.round();
    sum += lab.rescale();
  }
  return sum / rounds;
}

void add_gap(Rows& rows, std::string_view id, TopologyKind kind, std::size_t peers, double gap,
             std::size_t before) {
  const std::string name = fmt::format("{} of {}", to_string(kind), peers);
  rows.push_back(
      number(id, name + ": gap", spectral_gap({.kind = kind}, peers), gap, 1e-9, closed_form));
  const double slope = 2 * std::log(1 - gap);
  rows.push_back(number(id, name + ": ln of the spread squared, a round",
                        decay(kind, peers, before), slope, 0.01 * std::abs(slope), closed_form));
}

/// The product of rounds, multiplied one by one.
class Product {
 public:
  explicit Product(const RoundPlan& plan) : plan_(plan), product_(plan.peers()) {
    for (std::size_t i = 0; i < product_.n; ++i) product_.at(i, i) = 1;
  }

  void take(std::size_t rounds) {
    for (; rounds > 0; --rounds) {
      const SquareMatrix last = product_;
      const Mixing& mixing = plan_.round(round_++);
      for (std::size_t i = 0; i < last.n; ++i) {
        for (const Share& share : mixing[i]) {
          for (std::size_t k = 0; k < last.n; ++k) {
            product_.at(i, k) += share.weight * (last.at(share.from, k) - last.at(i, k));
          }
        }
      }
    }
  }

  /// The largest difference between an entry and the mean of all entries.
  double distance() const {
    double largest = 0;
    for (const double value : product_.values) {
      largest = std::max(largest, std::abs(value - 1 / static_cast<double>(product_.n)));
    }
    return largest;
  }

 private:
  const RoundPlan& plan_;
  SquareMatrix product_;
  std::uint64_t round_ = 0;
};

/// A product this close to J, the matrix of the exact mean, differs from J only by rounding.
constexpr double rounding = 1e-12;

}  // namespace

Rows ring_gap() {
  Rows rows;
  for (const std::size_t n : {8UL, 16UL, 32UL, 64UL}) {
    const double gap = 2.0 / 3 * (1 - std::cos(2 * std::numbers::pi / static_cast<double>(n)));
    add_gap(rows, "T1", TopologyKind::ring, n, gap, 10 * n);
  }
  return rows;
}

Rows exponential_gap() {
  Rows rows;
  for (const std::size_t n : {8UL, 16UL, 32UL, 64UL}) {
    const double gap = 2 / (1 + std::ceil(std::log2(static_cast<double>(n))));
    add_gap(rows, "T2", TopologyKind::exponential, n, gap, 40);
  }
  return rows;
}

Rows one_peer_exponential() {
  Rows rows;
  const Topology topology{.kind = TopologyKind::one_peer_exponential};
  double largest = 0;
  double too_early = 0;
  for (std::size_t n = 2; n <= 64; ++n) {
    const RoundPlan plan({.topology = topology}, n, 1);
    const auto log = static_cast<std::size_t>(std::bit_width(n - 1));
    const bool is_power = std::has_single_bit(n);
    // With other numbers of peers, four periods leave at least 64^-4 = 6e-8 of a spread (for 63
    // peers).
    const std::size_t before = is_power ? log - 1 : 4 * log;
    Product product(plan);
    for (std::size_t round = 0; round < before; ++round) {
      product.take(1);
      too_early += product.distance() < rounding ? 1 : 0;
    }
    if (!is_power) continue;
    product.take(1);
    largest = std::max(largest, product.distance());
  }
  rows.push_back(error("T3", "2, 4, ... 64 peers, lg n rounds: product less J", largest, rounding));
  rows.push_back(number("T3", "sooner, and others up to 64 in 4 periods: times exact", too_early, 0,
                        0, closed_form));
  // The norm of a period's product, for numbers of peers that are not powers of two.
  constexpr std::array<std::pair<std::size_t, double>, 8> known = {{{5, 0.2023},
                                                                    {6, 0.2165},
                                                                    {7, 0.1250},
                                                                    {9, 0.1175},
                                                                    {10, 0.1924},
                                                                    {12, 0.2091},
                                                                    {24, 0.2073},
                                                                    {25, 0.1921}}};
  for (const auto& [n, left] : known) {
    const double norm = distance_to_mean(product_of_rounds(topology, n, 1, period_of(topology, n)));
    rows.push_back(number("T3", fmt::format("{} peers: left of a spread by a period", n), norm,
                          left, 5e-5, reference));
  }
  return rows;
}

Rows base_k() {
  Rows rows;
  for (std::size_t k = 1; k <= 4; ++k) {
    double largest = 0;
    double too_long = 0;
    for (std::size_t n = 2; n <= 128; ++n) {
      const Topology topology{.kind = TopologyKind::base_k, .degree = k};
      const RoundPlan plan({.topology = topology}, n, 1);
      const std::size_t rounds = period_of(topology, n);
      Product product(plan);
      product.take(rounds);
      largest = std::max(largest, product.distance());
      const double bound =
          2 * std::log(static_cast<double>(n)) / std::log(static_cast<double>(k + 1)) + 2;
      too_long += static_cast<double>(rounds) > bound ? 1 : 0;
    }
    rows.push_back(
        error("T4", fmt::format("k = {}, 2 to 128 peers: product less J", k), largest, rounding));
    rows.push_back(number("T4",
                          fmt::format("k = {}: of those with over 2 log(n) / log(k+1) + 2", k),
                          too_long, 0, 0, published));
  }
  constexpr std::array<std::size_t, 15> peers = {3,  5,  6,  7,  9,  10, 12, 15,
                                                 16, 20, 24, 25, 32, 48, 64};
  constexpr std::array<std::array<std::size_t, 15>, 3> lengths = {
      {{3, 5, 4, 5, 7, 6, 5, 7, 4, 7, 6, 9, 5, 7, 6},
       {1, 3, 2, 4, 2, 4, 3, 4, 4, 5, 4, 6, 5, 5, 6},
       {1, 3, 2, 3, 2, 4, 2, 4, 2, 4, 3, 5, 3, 3, 3}}};
  for (std::size_t k = 1; k <= 3; ++k) {
    std::string measured;
    std::string expected;
    for (std::size_t i = 0; i < peers.size(); ++i) {
      measured +=
          fmt::format("{}", period_of({.kind = TopologyKind::base_k, .degree = k}, peers[i]));
      expected += fmt::format("{}", lengths[k - 1][i]);
    }
    rows.push_back(word("T4", fmt::format("k = {}: rounds of 15 numbers, 3 to 64", k), measured,
                        expected, reference));
  }
  return rows;
}

}  // namespace gv::theory
