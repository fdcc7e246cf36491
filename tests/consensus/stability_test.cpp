// The bounds of asynchronous rules, compared with the recursions that they bound.
#include "consensus/mixing/stability.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <deque>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/consensus/mixing_lab.hpp"

namespace gv {
namespace {

/// If a setting exceeds its bound by this fraction, the recursions below grow within their number
/// of steps.
constexpr double beyond = 0.01;

/// Iterates x_(t+1) = x_t - pull x_(t - delay) from 1. Returns true if x ends further from 0 than
/// it began.
bool late_descent_grows(double pull, std::size_t delay) {
  std::deque<double> recent(delay + 1, 1.0);
  double largest = 0;
  constexpr int steps = 30000;
  for (int step = 0; step < steps && largest < 1e6; ++step) {
    recent.push_back(recent.back() - pull * recent.front());
    recent.pop_front();
    if (step > steps - 100) largest = std::max(largest, std::abs(recent.back()));
    if (std::abs(recent.back()) > 1e6) largest = 1e6;
  }
  return largest > 1;
}

/// Workers take turns. Each one makes the steps since its last turn, and pulls at the centre with
/// the force of its model before these steps, as in the paper's Algorithm 1. Returns true if the
/// centre ends further from 0 than it began.
bool turns_grow(std::size_t workers, double alpha, double rate, std::uint64_t steps) {
  std::vector<double> x(workers);
  std::iota(x.begin(), x.end(), 1.0);
  double centre = 0.5;
  for (int turn = 0; turn < 20000 && std::abs(centre) < 1e6; ++turn) {
    for (double& worker : x) {
      const double force = alpha * (worker - centre);
      for (std::uint64_t step = 0; step < steps; ++step) worker -= rate * worker;
      worker -= force;
      centre += force;
    }
  }
  return std::abs(centre) > 0.5;
}

/// Peers of equal speed that do not wait. Every peer makes a step towards 0 and sends its change.
/// The root answers at once, and everything else arrives a round later. Returns true if the root's
/// model does not approach 0.
bool changes_grow(TopologyKind kind, std::size_t peers, double pull) {
  const MixRule rule{.topology = {.kind = kind},
                     .kind = MixKind::downpour,
                     .staleness = unbounded_staleness,
                     .centre_rests = true};
  std::vector<MixingLab::Vector> x(peers, MixingLab::Vector(1, 1));
  std::vector<Mixer<double>> mixers;
  for (std::size_t i = 0; i < peers; ++i) {
    mixers.emplace_back(rule, 1, 1);
    mixers[i].begin_generation(i, order_of(peers), 1, x[i]);
  }
  std::vector<std::vector<MixMessage>> mail(peers);
  std::uint64_t answers = 0;
  const auto send = [&](std::size_t from, std::uint64_t round, auto& to_whom) {
    mixers[from].begin_round(round, x[from]);
    if (from > 0) x[from][0] -= pull * x[from][0];
    for (const MixMessage& message : mixers[from].messages(round, x[from])) {
      for (const std::size_t to : message.to) to_whom[to].push_back(message);
    }
  };
  send(0, answers++, mail);
  for (std::uint64_t round = 0; round < 3000 && std::abs(x[0][0]) < 1e6; ++round) {
    std::vector<std::vector<MixMessage>> next(peers);
    for (std::size_t i = 1; i < peers; ++i) {
      send(i, round, next);
      if (next[0].empty()) continue;
      mixers[0].mix(answers, x[0], std::exchange(next[0], {}));
      send(0, answers++, next);
    }
    for (std::size_t i = 1; i < peers; ++i) mixers[i].mix(round, x[i], mail[i]);
    mail = std::move(next);
  }
  return std::abs(x[0][0]) > 0.5;
}

/// Each peer trains one number with the loss (sum - 1)^2 / 2, while the other numbers are frozen.
/// Returns true if the peers diverge.
bool slices_grow(std::size_t slices, double rate, std::uint64_t steps) {
  MixingLab lab({.topology = {.kind = TopologyKind::complete},
                 .fragments = slices,
                 .fragment_order = FragmentOrder::own},
                std::vector(slices, MixingLab::Vector(slices, 1)));
  const auto gradient = [](std::size_t, const MixingLab::Vector& x) {
    return MixingLab::Vector(x.size(), std::accumulate(x.begin(), x.end(), -1.0));
  };
  for (int round = 0; round < 600; ++round) lab.round(gradient, rate, steps);
  const MixingLab::Vector& x = lab.models()[0];
  return !(std::abs(std::accumulate(x.begin(), x.end(), -1.0)) < 1);
}

}  // namespace

TEST_CASE("changes that come late are stable up to the bound of their delay", "[unit]") {
  const std::vector<std::pair<std::size_t, double>> golden = {
      {0, 2}, {1, 1}, {2, 0.618034}, {3, 0.445042}, {7, 0.209057}};
  for (const auto& [delay, bound] : golden) {
    INFO(delay);
    CHECK(largest_delayed_pull(delay) == Approx(bound).margin(1e-6));
    CHECK_FALSE(late_descent_grows(bound * (1 - beyond), delay));
    CHECK(late_descent_grows(bound * (1 + beyond), delay));
  }
}

TEST_CASE("a star of peers that do not wait is stable up to the bound of its delay", "[unit]") {
  for (const std::size_t peers : {2, 4, 8}) {
    const std::uint64_t delay = delay_of_changes(TopologyKind::star, peers);
    INFO(peers);
    CHECK(delay == 2 * (peers - 1) - 1);
    const double bound = largest_delayed_pull(delay);
    CHECK_FALSE(changes_grow(TopologyKind::star, peers, 0.98 * bound));
    CHECK(changes_grow(TopologyKind::star, peers, 1.02 * bound));
  }
}

TEST_CASE("a tree of peers that do not wait is stable within the bound of its delay", "[unit]") {
  CHECK(delay_of_changes(TopologyKind::tree, 3) == delay_of_changes(TopologyKind::star, 3));
  CHECK(delay_of_changes(TopologyKind::tree, 8) == 2 * 2 + 4 * 6 + 10 - 1);
  for (const std::size_t peers : {4, 8, 12}) {
    const double bound = largest_delayed_pull(delay_of_changes(TopologyKind::tree, peers));
    INFO(peers);
    CHECK_FALSE(changes_grow(TopologyKind::tree, peers, bound));
    CHECK(changes_grow(TopologyKind::tree, peers, 4 * bound));
  }
}

TEST_CASE("a rate divided by the delay and one is stable below half of pi", "[unit]") {
  for (std::size_t delay = 0; delay < 64; ++delay) {
    CHECK(1.57 / static_cast<double>(delay + 1) < largest_delayed_pull(delay));
  }
}

TEST_CASE("workers in turn are stable up to the published alpha and hardly beyond", "[unit]") {
  for (const double rate : {0.1, 0.5, 1.0, 1.5}) {
    for (const std::uint64_t steps : {1, 3}) {
      const double bound = largest_elastic_alpha(pull_of(rate, steps));
      INFO(rate << ", " << steps << " steps: " << bound);
      for (const std::size_t workers : {2, 4, 8}) {
        CHECK_FALSE(turns_grow(workers, bound - 1e-3, rate, steps));
      }
      CHECK(turns_grow(8, bound + 0.02, rate, steps));
    }
  }
  CHECK(largest_elastic_alpha(0.1) == Approx(0.9744).margin(5e-5));
  CHECK(largest_elastic_alpha(1) == Approx(2.0 / 3));
  CHECK(largest_elastic_alpha(2.5) == 0);
}

TEST_CASE("slices may train frozen for as many steps as their number allows", "[unit]") {
  const std::vector<std::pair<std::size_t, std::uint64_t>> golden = {{3, 10}, {4, 6}, {8, 2}};
  for (const auto& [slices, steps] : golden) {
    INFO(slices << " slices");
    CHECK(pull_of(0.1, steps) < largest_sliced_pull(slices));
    CHECK(pull_of(0.1, steps + 1) > largest_sliced_pull(slices));
    CHECK_FALSE(slices_grow(slices, 0.1, steps));
    CHECK(slices_grow(slices, 0.1, steps + 1));
  }
  CHECK_FALSE(slices_grow(2, 0.1, 100));
}

TEST_CASE("the rate of a pull pulls as much", "[unit]") {
  for (const std::uint64_t steps : {1, 2, 10}) {
    for (const double pull : {0.1, 0.5, 0.9}) {
      CHECK(pull_of(rate_of(pull, steps), steps) == Approx(pull));
    }
  }
  CHECK(rate_of(2, 1) == 2);
  CHECK(rate_of(2, 4) == 1);  // Above this rate, an even number of steps cancels the signs.
}

}  // namespace gv
