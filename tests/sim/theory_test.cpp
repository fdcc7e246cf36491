// Exchanges contract, and elastic gradient descent settles, as the closed forms say.
//
// Every check states the source of its formula. Random checks compare a mean over independent
// seeds with the formula, and allow 3 standard errors of the sample itself.
#include <Eigen/Dense>
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "consensus/topology/pairing.hpp"
#include "peer/modes/gossip.hpp"
#include "sim/virtual/simulator.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "tests/sim/exchange_log.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

void check_within_three_errors(const std::string& what, const Sample& sample, double wanted) {
  INFO(what << ": predicted " << wanted << ", measured " << sample.mean() << " +- "
            << sample.error());
  CHECK(sample.error() < 0.05 * std::max(std::abs(wanted), 0.01));
  CHECK(std::abs(sample.mean() - wanted) <= 3 * sample.error());
}

/// Runs are not measured below this scatter. At this size, distances between models are 1e-3 of the
/// initial ones, and the rounding of floats (6e-8) is still only 1e-4 of them.
constexpr double smallest = 1e-6;

Simulator::Options frozen_world(std::size_t peers, std::uint64_t seed, double alpha,
                                PairingKind pairing) {
  Simulator::Options options = small_world(peers, seed);
  options.node.gossip.alpha = alpha;
  options.node.gossip.pairing = pairing;
  return options;
}

}  // namespace

// ---- Contraction ----

TEST_CASE("the first random exchange shrinks the scatter as one of the complete graph",
          "[sim][theory]") {
  // Boyd, Ghosh, Prabhakar, Shah 2006 for alpha = 1/2. An exchange replaces x_i and x_j by
  // x_i + a (x_j - x_i) and x_j + a (x_i - x_j). This takes 2a(1-a) ||x_i - x_j||^2 from
  // V = sum ||x_i - mean||^2. The squared distances of all N(N-1)/2 pairs sum to N V, so a
  // uniformly random pair leaves V (1 - 4a(1-a)/(N-1)) on average.
  const auto [peers, alpha] =
      GENERATE(table<std::size_t, double>({{4, 0.5}, {8, 0.5}, {8, 0.1}, {12, 0.3}, {12, 0.9}}));
  Sample ratio;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    Simulator::Options options = frozen_world(peers, seed, alpha, PairingKind::uniform);
    // The paces of the peers decide which exchange is first.
    ExchangeLog log;
    Simulator world(options, idle_peers(options));
    world.watch(log);
    for (Time t(100ms); log.entries.empty() || log.entries[0].forces.size() < 2; t += 50ms) {
      world.run(t);
      REQUIRE(t < Time(5s));
    }
    std::vector<std::vector<float>> models = log.start;
    const double before = scatter(models);
    REQUIRE(ExchangeLog::apply(log.entries.front(), models));
    ratio.add(scatter(models) / before);
  }
  const double wanted = 1 - 4 * alpha * (1 - alpha) / (static_cast<double>(peers) - 1);
  check_within_three_errors(
      "one exchange, N = " + std::to_string(peers) + ", a = " + std::to_string(alpha), ratio,
      wanted);
}

TEST_CASE("exchange after exchange takes what the initiator and a uniform partner predict",
          "[sim][theory]") {
  // Peers do not ask in independent order, because each asks once a period. In a long run, the pair
  // is therefore not uniform. However, the partner of a given asking peer i is uniform. Whatever
  // came before, an exchange takes on average 2a(1-a) (N ||x_i - mean||^2 + V)/(N-1) from V. The
  // differences between the amount taken and this mean, divided by V, average to zero (they are a
  // martingale).
  //
  // Usually the asking peer has waited longest since its last exchange, so it lies farther out than
  // the others. In the long run, an exchange therefore contracts more than one of a uniform pair.
  // The test checks this as an inequality.
  const auto [peers, alpha] =
      GENERATE(table<std::size_t, double>({{4, 0.3}, {8, 0.5}, {16, 0.3}, {16, 0.5}, {32, 0.1}}));
  const double n = static_cast<double>(peers);
  Sample surprise;
  Sample ratio;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Simulator::Options options = frozen_world(peers, seed, alpha, PairingKind::uniform);
    ExchangeLog log;
    Simulator world(options, idle_peers(options));
    world.watch(log);
    world.run(Time(2s));
    std::vector<std::vector<float>> models = log.start;
    const double first = scatter(models);
    double before = first;
    std::size_t count = 0;
    for (const ExchangeLog::Entry& entry : log.entries) {
      if (before < smallest * first) break;
      double own = 0;
      for (std::size_t k = 0; k < models.front().size(); ++k) {
        double mean = 0;
        for (const auto& model : models) mean += model[k] / n;
        own += std::pow(models[entry.initiator][k] - mean, 2);
      }
      const double expected = 2 * alpha * (1 - alpha) * (n * own + before) / (n - 1);
      if (!ExchangeLog::apply(entry, models)) break;
      const double after = scatter(models);
      surprise.add((before - after - expected) / before);
      ratio.add(after / before);
      before = after;
      ++count;
    }
    REQUIRE(count >= 3 * peers);
  }
  INFO("N = " << peers << ", a = " << alpha << ": surprise " << surprise.mean() << " +- "
              << surprise.error());
  CHECK(surprise.error() < 0.01);
  CHECK(std::abs(surprise.mean()) <= 3 * surprise.error());
  const double uniform = 1 - 4 * alpha * (1 - alpha) / (n - 1);
  INFO("ratio: uniform pairs " << uniform << ", measured " << ratio.mean() << " +- "
                               << ratio.error());
  CHECK(ratio.mean() < uniform);
}

TEST_CASE("a round of matching shrinks the scatter as a random perfect matching", "[sim][theory]") {
  // The same sum as in the first case, now over the m = floor(N/2) pairs of a round. Each pair is
  // uniform over all N(N-1)/2 pairs: E[V'] = V (1 - 4a(1-a) m/(N-1)). The factor is 1 - 2a(1-a)
  // N/(N-1) for even N, which is (N-2)/(2(N-1)) for a = 1/2. It is 1 - 2a(1-a) for odd N, where one
  // peer sits out. Rounds are independent, so the ratios of all rounds of a run count. All peers
  // take their steps at once here, so all exchanges of a round belong together.
  const auto [peers, alpha] = GENERATE(
      table<std::size_t, double>({{2, 0.3}, {4, 0.5}, {5, 0.5}, {8, 0.5}, {8, 0.25}, {16, 0.1}}));
  Sample ratio;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Simulator::Options options = frozen_world(peers, seed, alpha, PairingKind::matching);
    options.scenario.step_jitter = 0;
    ExchangeLog log;
    Simulator world(options, idle_peers(options));
    world.watch(log);
    world.run(Time(2150ms));
    std::vector<std::vector<float>> models = log.start;
    const double first = scatter(models);
    double before = first;
    std::uint64_t round = log.entries.front().round;
    std::size_t pairs = 0;
    for (const ExchangeLog::Entry& entry : log.entries) {
      if (entry.round != round) {
        REQUIRE(pairs == peers / 2);
        const double after = scatter(models);
        ratio.add(after / before);
        before = after;
        round = entry.round;
        pairs = 0;
        if (before < smallest * first) break;
      }
      if (!ExchangeLog::apply(entry, models)) break;
      ++pairs;
    }
  }
  const double n = static_cast<double>(peers);
  const double wanted = 1 - 4 * alpha * (1 - alpha) * std::floor(n / 2) / (n - 1);
  INFO("N = " << peers << ", a = " << alpha << ": predicted " << wanted << ", measured "
              << ratio.mean() << " +- " << ratio.error());
  // With two peers nothing is random, so only the rounding of floats is left.
  const double tolerance = peers == 2 ? 1e-3 : 3 * ratio.error();
  CHECK(ratio.error() < 0.02);
  CHECK(std::abs(ratio.mean() - wanted) <= tolerance);
}

TEST_CASE("models between exchanges are those that the log of forces gives", "[sim][theory]") {
  // The checks above rest on this: initial models plus forces are the live models, to the bit.
  Simulator::Options options = frozen_world(6, 3, 0.4, PairingKind::uniform);
  options.scenario.links = {every_link({.latency = 2ms})};
  ExchangeLog log;
  Simulator world(options, idle_peers(options));
  world.watch(log);
  world.run(Time(5s));
  std::vector<std::vector<float>> by_ledger = log.start;
  for (const ExchangeLog::Entry& entry : log.entries) {
    for (const auto& [peer, force] : entry.forces) {
      for (std::size_t k = 0; k < by_ledger[peer].size(); ++k) {
        by_ledger[peer][k] += force.scale * (*force.values)[k];
      }
    }
  }
  CHECK(log.entries.size() > 100);
  CHECK(by_ledger == models(world));
}

TEST_CASE("pull gossip contracts by its formula and moves the mean", "[theory]") {
  // The rule of Gossiping SGD (Jin and others 2016): each peer picks a random partner, and all move
  // half the way to their partners at once. No exchange of this protocol follows this rule, so the
  // test uses the pairing function alone. With S = sum ||x_i - mean||^2 and n peers, one round
  // gives
  //   E[S'] = S ((1/2)(1 - 1/(n-1)) - (1/(4n))(1 - 1/(n-1)^2)),
  //   E[||mean' - mean||^2] = S (1 - 1/(n-1)^2)/(4 n^2).
  const std::size_t peers = GENERATE(std::size_t{3}, std::size_t{8}, std::size_t{16});
  const double n = static_cast<double>(peers);
  std::vector<PeerId> ids;
  for (PeerNumber number = 0; number < peers; ++number) ids.push_back(id_of(number));
  const View view(ids);
  Rng rng(41);
  Sample ratio;
  Sample drift;
  for (int round = 0; round < 20000; ++round) {
    std::vector<double> x(peers);
    for (double& value : x) value = rng.normal();
    const auto mean_of_all = [&](const std::vector<double>& values) {
      double sum = 0;
      for (const double value : values) sum += value / n;
      return sum;
    };
    const auto scattered = [&](const std::vector<double>& values) {
      double sum = 0;
      for (const double value : values) sum += std::pow(value - mean_of_all(values), 2);
      return sum;
    };
    std::vector<double> pulled(peers);
    for (PeerNumber i = 0; i < peers; ++i) {
      pulled[i] = (x[i] + x[number_of(uniform_partner(view, id_of(i), rng).value())]) / 2;
    }
    ratio.add(scattered(pulled) / scattered(x));
    drift.add(std::pow(mean_of_all(pulled) - mean_of_all(x), 2) / scattered(x));
  }
  const double r = 1 / ((n - 1) * (n - 1));
  check_within_three_errors("pull", ratio, 0.5 * (1 - 1 / (n - 1)) - (1 - r) / (4 * n));
  INFO("drift: predicted " << (1 - r) / (4 * n * n) << ", measured " << drift.mean() << " +- "
                           << drift.error());
  CHECK(std::abs(drift.mean() - (1 - r) / (4 * n * n)) <= 3 * drift.error());
}

TEST_CASE("the mixing matrices of both pairings have the spectral gaps of their formulas",
          "[theory]") {
  // A pair mixes by W = I - a L with the pair's Laplacian L (L^2 = 2L). Each pair is drawn with
  // probability p, so E[W] = I - a p (N I - 11'). Every direction but the mean's then has the
  // eigenvalue 1 - a p N. Also, E[W'W] = I - 2a(1-a) p (N I - 11').
  //   matching:          p = floor(N/2) / (N(N-1)/2); gap = a N/(N-1) for even N, a for odd N;
  //   one random pair:   p = 2/(N(N-1));              gap = 2a/(N-1).
  // Measured from M draws, entries have an error of a sqrt(p/M). The eigenvalues of a symmetric
  // matrix of independent entries with standard deviation s are within 2 s sqrt(N) (Wigner). Twice
  // that is allowed, because entries are only nearly independent and the diagonal sums N of them.
  constexpr double alpha = 0.5;
  constexpr int draws = 4000;
  double worst = 0;
  for (std::size_t peers = 2; peers <= 32; ++peers) {
    const double n = static_cast<double>(peers);
    const auto size = static_cast<Eigen::Index>(peers);
    std::vector<PeerId> ids;
    for (PeerNumber number = 0; number < peers; ++number) ids.push_back(id_of(number));
    const View view(ids);
    Rng rng(peers);
    for (const PairingKind pairing : {PairingKind::matching, PairingKind::uniform}) {
      Eigen::MatrixXd mean = Eigen::MatrixXd::Zero(size, size);
      Eigen::MatrixXd square = Eigen::MatrixXd::Zero(size, size);
      for (int draw = 0; draw < draws; ++draw) {
        Eigen::MatrixXd w = Eigen::MatrixXd::Identity(size, size);
        const auto mix = [&](PeerId a, PeerId b) {
          const auto i = static_cast<Eigen::Index>(number_of(a));
          const auto j = static_cast<Eigen::Index>(number_of(b));
          w(i, i) -= alpha;
          w(j, j) -= alpha;
          w(i, j) += alpha;
          w(j, i) += alpha;
        };
        if (pairing == PairingKind::matching) {
          for (const PeerId id : ids) {
            const auto match = matching_partner(7, static_cast<std::uint64_t>(draw), view, id);
            if (match && match->initiates) mix(id, match->partner);
          }
        } else {
          const PeerId initiator = ids[rng.below(peers)];
          mix(initiator, uniform_partner(view, initiator, rng).value());
        }
        mean += w / draws;
        square += w.transpose() * w / draws;
      }
      const double pairs = pairing == PairingKind::matching ? std::floor(n / 2) : 1;
      const double p = pairs / (n * (n - 1) / 2);
      const auto check_all = [&](const Eigen::MatrixXd& matrix, double strength) {
        const Eigen::VectorXd values =
            Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(matrix).eigenvalues();
        const double tolerance = 4 * strength * std::sqrt(n * p / draws) + 1e-12;
        // Eigenvalues ascend. The eigenvalue of the mean comes last and is 1.
        REQUIRE(std::abs(values[size - 1] - 1) < 1e-9);
        const double wanted = 1 - strength * p * n;
        INFO("N = " << peers << (pairing == PairingKind::matching ? " matching" : " one pair")
                    << ": eigenvalue predicted " << wanted << ", measured " << values[0] << " to "
                    << values[size - 2] << ", allowed " << tolerance);
        CHECK(std::abs(values[size - 2] - wanted) <= tolerance);
        CHECK(std::abs(values[0] - wanted) <= tolerance);
        worst = std::max(worst, std::abs(values[size - 2] - wanted) / tolerance);
      };
      check_all(mean, alpha);
      check_all(square, 2 * alpha * (1 - alpha));
    }
  }
  INFO("worst " << worst << " of what is allowed");
  CHECK(worst < 1);
  CHECK(worst > 0.1);
}

// ---- Elastic gradient descent ----

namespace {

/// The limit of the models on f_i(x) = h/2 (x - c_i)^2, in one direction. The gradients have noise
/// of standard deviation s.
struct Settled {
  double pull = 0;     ///< sum_i (c_i - mean c) E[y_i - mean y], the bias of the peers.
  double scatter = 0;  ///< E sum_i (y_i - mean y)^2.
  double mean = 0;     ///< E (mean y - mean c)^2.
};

/// One round is y <- W y - lr (h (y - c) + noise), because the force of an exchange and the
/// gradient both belong to the models that were exchanged. Let q = lr h, d_i = c_i - mean c and
/// D = sum d_i^2. For a perfect matching of N peers, g = a N/(N-1) and r = 2a(1-a) N/(N-1):
///   mean:     m' = (1-q) m + lr mean(noise)        => E m^2 = lr^2 s^2 / (N q (2-q)), no bias;
///   bias:     E z' = (1-g-q) E z + q d             => E z = q d / (q + g);
///   scatter:  E|z'|^2 = (1-r - 2q(1-g) + q^2) E|z|^2 + 2 q (1-g-q) d'E z + q^2 D
///                       + lr^2 s^2 (N-1).
Settled settled(double n, double alpha, double lr, double h, double noise, double apart) {
  const double q = lr * h;
  const double g = alpha * n / (n - 1);
  const double r = 2 * alpha * (1 - alpha) * n / (n - 1);
  const double stays = 1 - r - 2 * q * (1 - g) + q * q;
  const double pull = q * apart / (q + g);
  const double scatter =
      (2 * q * (1 - g - q) * pull + q * q * apart + lr * lr * noise * noise * (n - 1)) /
      (1 - stays);
  return {pull, scatter, lr * lr * noise * noise / (n * q * (2 - q))};
}

}  // namespace

TEST_CASE("elastic gradient descent on a quadratic settles with the bias and variance of theory",
          "[sim][theory]") {
  // One step a round (period 1), perfect links and equal paces make every round the map that
  // `settled` solves. The test measures the snapshots that peers offer, summed over all directions.
  // Each seed has its own optima, so the ratio of measured to predicted is averaged over the seeds.
  const auto [alpha, noise, disagreement] = GENERATE(table<double, double, double>(
      {{0.5, 0.1, 1.0}, {0.2, 0.1, 1.0}, {0.1, 0.5, 0.2}, {0.5, 1.0, 0.0}}));
  constexpr std::size_t peers = 8;
  constexpr double n = peers;
  constexpr double lr = 0.1;
  Sample pull;
  Sample scattered;
  Sample of_mean;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const QuadraticSpec spec{.dimension = 32,
                             .learning_rate = lr,
                             .noise = noise,
                             .disagreement = disagreement,
                             .seed = seed};
    Simulator::Options options = small_world(peers, seed, spec.dimension);
    options.node.gossip.period_steps = 1;
    options.node.gossip.alpha = alpha;
    options.scenario.step_jitter = 0;
    Simulator world(options, [&](std::size_t peer) { return quadratic_workload(spec, peer); });
    const std::vector<double> centre = common_optimum(spec, peers);
    std::vector<std::vector<double>> own;
    for (std::size_t peer = 0; peer < peers; ++peer) own.push_back(quadratic_optimum(spec, peer));
    Settled predicted;
    Settled measured;
    for (std::size_t k = 0; k < spec.dimension; ++k) {
      double apart = 0;
      for (const auto& c : own) apart += std::pow(c[k] - centre[k], 2);
      const double h =
          0.1 * std::pow(10, static_cast<double>(k + 1) / static_cast<double>(spec.dimension));
      const Settled one = settled(n, alpha, lr, h, noise, apart);
      predicted.pull += one.pull;
      predicted.scatter += one.scatter;
      predicted.mean += one.mean;
    }
    // In each step, the slowest direction keeps 0.99 of its distance: e^-10 after 1000 steps.
    constexpr int looks = 400;
    for (int look = 0; look < looks; ++look) {
      world.run(Time(20s + look * 100ms + 1ms));
      std::vector<const std::vector<float>*> y;
      for (PeerNumber peer = 0; peer < peers; ++peer) {
        y.push_back(&world.peer(peer).node->as<GossipMode>()->exchange().snapshot()->values);
      }
      for (std::size_t k = 0; k < spec.dimension; ++k) {
        double mean = 0;
        for (const auto* model : y) mean += (*model)[k] / n;
        measured.mean += std::pow(mean - centre[k], 2) / looks;
        for (std::size_t peer = 0; peer < peers; ++peer) {
          const double z = (*y[peer])[k] - mean;
          measured.scatter += z * z / looks;
          measured.pull += (own[peer][k] - centre[k]) * z / looks;
        }
      }
    }
    if (disagreement > 0) pull.add(measured.pull / predicted.pull);
    scattered.add(measured.scatter / predicted.scatter);
    of_mean.add(measured.mean / predicted.mean);
  }
  const std::string where = "a = " + std::to_string(alpha) + ", noise " + std::to_string(noise) +
                            ", disagreement " + std::to_string(disagreement);
  if (disagreement > 0) check_within_three_errors("bias, " + where, pull, 1);
  check_within_three_errors("scatter, " + where, scattered, 1);
  INFO("variance of the mean, " << where << ": " << of_mean.mean() << " +- " << of_mean.error());
  CHECK(of_mean.error() < 0.05);
  CHECK(std::abs(of_mean.mean() - 1) <= 3 * of_mean.error());
}

}  // namespace gv
