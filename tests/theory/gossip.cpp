// T6, T9 and T10: the scatter that one round leaves on average, sums along trees, and companions.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <queue>
#include <string_view>
#include <utility>

#include "base/rng.hpp"
#include "consensus/mixing/companion_rates.hpp"
#include "consensus/mixing/round_plan.hpp"
#include "consensus/topology/graphs.hpp"
#include "consensus/topology/pairing.hpp"
#include "consensus/topology/spectrum.hpp"
#include "tests/theory/lab.hpp"
#include "tests/theory/rows.hpp"

namespace gv::theory {
namespace {

/// The fraction of the scatter that a round leaves, and the distance by which the mean moves, for
/// random models and rounds.
struct OneRound {
  Sample left;
  Sample drift;
};

template <class Round>
OneRound one_round_of(std::size_t n, const Round& round) {
  constexpr std::uint64_t draws = 100000;
  OneRound one;
  Rng rng(6);
  Vector x(n);
  for (std::uint64_t draw = 0; draw < draws; ++draw) {
    for (double& value : x) value = rng.normal();
    const Vector after = round(x, draw);
    one.left.add(scatter(after) / scatter(x));
    one.drift.add(std::pow(mean_of(after) - mean_of(x), 2) / scatter(x));
  }
  return one;
}

OneRound one_round_by(const MixRule& rule, std::size_t n) {
  const RoundPlan plan(rule, n, 1);
  return one_round_of(n, [&](const Vector& x, std::uint64_t round) {
    Vector after = x;
    const Mixing& mixing = plan.round(round);
    for (std::size_t i = 0; i < n; ++i) {
      for (const Share& share : mixing[i]) after[i] += share.weight * (x[share.from] - x[i]);
    }
    return after;
  });
}

/// A row with a tolerance of three standard errors. By chance, 0.3 of a hundred rows would fail,
/// but the seed is fixed.
TheoryRow drawn(std::string setting, const Sample& sample, double expected) {
  // If nothing is random, only rounding remains.
  return number("T6", std::move(setting), sample.mean(), expected,
                std::max(3 * sample.error(), 1e-12), closed_form);
}

}  // namespace

Rows one_round() {
  Rows rows;
  for (const std::size_t peers : {8UL, 16UL}) {
    const double n = static_cast<double>(peers);
    const double r = 1 / ((n - 1) * (n - 1));
    const OneRound pull = one_round_by(
        {.topology = {.kind = TopologyKind::complete}, .partners = Partners::pull}, peers);
    rows.push_back(drawn(fmt::format("{} peers pull: left of the scatter", peers), pull.left,
                         0.5 * (1 - 1 / (n - 1)) - (1 - r) / (4 * n)));
    rows.push_back(drawn(fmt::format("{} peers pull: the mean moves by", peers), pull.drift,
                         (1 - r) / (4 * n * n)));
    for (const double alpha : {0.5, 0.25, 0.1}) {
      const OneRound pairs =
          one_round_by({.topology = {.kind = TopologyKind::matching}, .alpha = alpha}, peers);
      rows.push_back(drawn(fmt::format("{} peers in pairs, alpha = {}", peers, alpha), pairs.left,
                           1 - 2 * alpha * (1 - alpha) * n / (n - 1)));
    }
    std::vector<PeerId> ids;
    for (std::size_t i = 0; i < peers; ++i) ids.push_back(PeerId{i});
    const View view(ids);
    Rng rng(66);
    const OneRound pair = one_round_of(peers, [&](Vector x, std::uint64_t) {
      const std::size_t i = rng.below(peers);
      const auto j = static_cast<std::size_t>(uniform_partner(view, ids[i], rng).value());
      x[i] = x[j] = (x[i] + x[j]) / 2;
      return x;
    });
    rows.push_back(drawn(fmt::format("{} peers, one pair", peers), pair.left, 1 - 1 / (n - 1)));
  }
  return rows;
}

namespace {

/// The length of the longest of all shortest paths.
std::size_t diameter(const std::vector<Edge>& edges, std::size_t n) {
  std::vector<std::vector<std::size_t>> neighbours(n);
  for (const Edge& edge : edges) {
    neighbours[edge.low].push_back(edge.high);
    neighbours[edge.high].push_back(edge.low);
  }
  std::size_t longest = 0;
  for (std::size_t start = 0; start < n; ++start) {
    std::vector<std::size_t> far(n, n);
    std::queue<std::size_t> open;
    far[start] = 0;
    for (open.push(start); !open.empty(); open.pop()) {
      longest = std::max(longest, far[open.front()]);
      for (const std::size_t next : neighbours[open.front()]) {
        if (far[next] < n) continue;
        far[next] = far[open.front()] + 1;
        open.push(next);
      }
    }
  }
  return longest;
}

/// The number of rounds in which constant inputs must be relayed until all peers have their mean.
/// Returns 0 if that takes more than 2 n rounds.
std::size_t rounds_until_exact(const Topology& topology, std::size_t n) {
  const std::vector<Vector> inputs = drawn_models(n, 1, 9);
  Lab lab({.topology = topology, .kind = MixKind::relay_sum}, inputs);
  const double mean = lab.mean()[0];
  // A step of length 1 moves each model back to its input.
  const auto back = [&](std::size_t peer, std::size_t, double x) { return x - inputs[peer][0]; };
  for (std::size_t round = 1; round <= 2 * n; ++round) {
    lab.round(back, 1);
    const bool exact = std::ranges::all_of(
        lab.models(), [&](const Vector& x) { return std::abs(x[0] - mean) < 1e-12; });
    if (exact) return round;
  }
  return 0;
}

}  // namespace

Rows relay_sum() {
  Rows rows;
  for (const std::size_t n : {3UL, 7UL, 10UL, 15UL, 31UL, 63UL}) {
    const Topology tree{.kind = TopologyKind::tree};
    rows.push_back(number("T9", fmt::format("binary tree of {}: rounds until exact", n),
                          static_cast<double>(rounds_until_exact(tree, n)),
                          static_cast<double>(diameter(edges_of(tree, n, 1), n)), 0, closed_form));
  }
  const Topology star{.kind = TopologyKind::star};
  rows.push_back(number("T9", "star of 9: rounds until exact",
                        static_cast<double>(rounds_until_exact(star, 9)),
                        static_cast<double>(diameter(edges_of(star, 9, 1), 9)), 0, closed_form));
  return rows;
}

namespace {

/// ln of the fraction of the squared spread that is left after `time` on a ring, where pairs meet
/// at random times, averaged over 60 runs. Each peer meets one other in a unit of time, so each
/// edge is used once in two units. A Mixer's time passes in rounds. Here the same flow acts between
/// meetings, and the same pull acts at each meeting.
Sample poisson_pairs(std::size_t n, double time, bool with_companion) {
  constexpr std::size_t runs = 60;
  constexpr double rate = 0.5;
  const std::vector<Edge> edges = edges_of({.kind = TopologyKind::ring}, n, 1);
  SquareMatrix laplacian(n);
  for (const Edge& edge : edges) {
    laplacian.at(edge.low, edge.low) += rate;
    laplacian.at(edge.high, edge.high) += rate;
    laplacian.at(edge.low, edge.high) -= rate;
    laplacian.at(edge.high, edge.low) -= rate;
  }
  const CompanionRates rates = companion_rates(laplacian, edges);
  Sample sample;
  for (std::size_t i = 0; i < runs; ++i) {
    Rng rng = Rng(10).fork(n).fork(i);
    Vector x(n);
    for (double& value : x) value = rng.normal();
    Vector companion = x;
    const double before = scatter(x);
    const auto pass = [&](double dt) {
      if (!with_companion) return;
      const double flow = (1 - std::exp(-2 * rates.leaning * dt)) / 2;
      for (std::size_t k = 0; k < n; ++k) {
        const double d = flow * (companion[k] - x[k]);
        x[k] += d;
        companion[k] -= d;
      }
    };
    double now = 0;
    while (true) {
      const double wait = -std::log(1 - rng.uniform()) / (rate * static_cast<double>(edges.size()));
      if (now + wait > time) break;
      now += wait;
      pass(wait);
      const Edge edge = edges[rng.below(edges.size())];
      const double m = x[edge.low] - x[edge.high];
      x[edge.low] -= m / 2;
      x[edge.high] += m / 2;
      companion[edge.low] -= rates.pull * m;
      companion[edge.high] += rates.pull * m;
    }
    pass(time - now);
    sample.add(std::log(scatter(x) / before));
  }
  return sample;
}

/// The largest difference between mixers, which run rounds of pairs along a ring, and the equations
/// of poisson_pairs() with one unit of time for each round.
double off_the_flow(std::size_t n, std::size_t rounds) {
  const MixRule rule{.topology = {.kind = TopologyKind::ring},
                     .partners = Partners::pairs,
                     .kind = MixKind::companion};
  Lab lab(rule, drawn_models(n, 1, 10));
  const RoundPlan plan(rule, n, 1);
  const CompanionRates rates = companion_rates(plan);
  Vector x;
  for (const Vector& model : lab.models()) x.push_back(model[0]);
  Vector companion = x;
  for (std::size_t round = 0; round < rounds; ++round) {
    lab.round();
    for (std::size_t i = 0; i < n; ++i) {
      const double middle = (x[i] + companion[i]) / 2;
      const double half = (x[i] - companion[i]) / 2 * std::exp(-2 * rates.leaning);
      x[i] = middle + half;
      companion[i] = middle - half;
    }
    const Vector last = x;
    for (std::size_t i = 0; i < n; ++i) {
      for (const Share& share : plan.round(round)[i]) {
        x[i] += (last[share.from] - last[i]) / 2;
        companion[i] += rates.pull * (last[share.from] - last[i]);
      }
    }
  }
  double off = 0;
  for (std::size_t i = 0; i < n; ++i) off = std::max(off, std::abs(lab.models()[i][0] - x[i]));
  return off;
}

}  // namespace

Rows companion() {
  Rows rows;
  struct Case {
    std::size_t peers;
    double time;
    double plain;
    double companioned;
  };
  for (const Case& one : {Case{16, 60, -6.9, -14.4}, Case{32, 120, -5.7, -14.7}}) {
    const std::string name = fmt::format("ring of {}, {} units of time", one.peers, one.time);
    rows.push_back(number("T10", name + ": plain pairs",
                          poisson_pairs(one.peers, one.time, false).mean(), one.plain, 0.5,
                          reference));
    rows.push_back(number("T10", name + ": with shadows",
                          poisson_pairs(one.peers, one.time, true).mean(), one.companioned, 0.5,
                          reference));
  }
  rows.push_back(error("T10", "ring of 16, 60 rounds of pairs: mixers less the flow",
                       off_the_flow(16, 60), 1e-12));
  return rows;
}

}  // namespace gv::theory
