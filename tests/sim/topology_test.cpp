// Exchanges along a topology follow its plan, and shrink the scatter as its matrices predict.
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "consensus/topology/graphs.hpp"
#include "consensus/topology/pairs.hpp"
#include "consensus/topology/spectrum.hpp"
#include "sim/virtual/simulator.hpp"
#include "tests/sim/exchange_log.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// Peers that all step at once and compute nothing. A round takes 200 ms, and only exchanges change
/// the models.
Simulator::Options even_world(const Topology& topology, std::size_t peers, std::uint64_t seed,
                              double alpha = 0.5) {
  Simulator::Options options = small_world(peers, seed);
  options.node.gossip.topology = topology;
  options.node.gossip.alpha = alpha;
  options.scenario.step_jitter = 0;
  return options;
}

/// The exchanges of a run, keyed by round, in the order of the decisions.
std::map<std::uint64_t, std::vector<ExchangeLog::Entry>> by_round(const ExchangeLog& log) {
  std::map<std::uint64_t, std::vector<ExchangeLog::Entry>> rounds;
  for (const ExchangeLog::Entry& entry : log.entries) rounds[entry.round].push_back(entry);
  return rounds;
}

std::set<std::pair<std::size_t, std::size_t>> pairs_of(
    const std::vector<ExchangeLog::Entry>& entries) {
  std::set<std::pair<std::size_t, std::size_t>> pairs;
  for (const ExchangeLog::Entry& entry : entries) pairs.insert({entry.initiator, entry.responder});
  return pairs;
}

std::set<std::pair<std::size_t, std::size_t>> pairs_of(const std::vector<RankPair>& plan) {
  std::set<std::pair<std::size_t, std::size_t>> pairs;
  for (const RankPair& pair : plan) pairs.insert({pair.initiator, pair.responder});
  return pairs;
}

Eigen::MatrixXd matrix_of(const SquareMatrix& values) {
  const auto n = static_cast<Eigen::Index>(values.n);
  Eigen::MatrixXd matrix(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j < n; ++j) {
      matrix(i, j) = values.at(static_cast<std::size_t>(i), static_cast<std::size_t>(j));
    }
  }
  return matrix;
}

/// The models minus their mean, as a matrix (n, dimension).
Eigen::MatrixXd around_mean(const std::vector<std::vector<float>>& models) {
  Eigen::MatrixXd x(models.size(), models.front().size());
  for (Eigen::Index i = 0; i < x.rows(); ++i) {
    for (Eigen::Index k = 0; k < x.cols(); ++k) {
      x(i, k) = models[static_cast<std::size_t>(i)][static_cast<std::size_t>(k)];
    }
  }
  return x.rowwise() - x.colwise().mean();
}

/// Computes x <- W x for one round of a mixing matrix.
void mix(const Mixing& round, std::vector<double>& x) {
  const std::vector<double> before = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (const Share& share : round[i]) x[i] += share.weight * (before[share.from] - before[i]);
  }
}

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

/// The measured contraction, over all rounds of all seeds.
struct Measured {
  /// Difference of the scatter from its prediction, relative to the scatter before.
  Sample surprise;
  Sample slowest;        ///< Relative error of the prediction along the slowest direction.
  Sample share;          ///< The slowest direction's share of the scatter before each round.
  double predicted = 0;  ///< The slowest direction's eigenvalue, summed over the seeds.
};

/// Adds the rounds of one run. The test that calls this explains m, v and l.
void measure(const Topology& topology, std::size_t peers, std::uint64_t seed, double alpha,
             Measured& all) {
  Simulator::Options options = even_world(topology, peers, seed, alpha);
  ExchangeLog log;
  Simulator world(options, idle_peers(options));
  world.watch(log);
  world.run(Time(6150ms));
  const Eigen::MatrixXd m = matrix_of(expected_square_of_pairs(topology, peers, seed, 4000, alpha));
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(m);
  const auto second = static_cast<Eigen::Index>(peers) - 2;  // The last vector belongs to the mean.
  const Eigen::VectorXd v = solver.eigenvectors().col(second);
  const double l = (1 - solver.eigenvalues()(second)) / (2 * alpha * (1 - alpha));
  all.predicted += 1 - alpha * l;

  const PairPlan plan(topology, peers, seed);
  std::vector<std::vector<float>> models = log.start;
  const double first = scatter(models);
  std::size_t rounds = 0;
  for (const auto& [round, entries] : by_round(log)) {
    const Eigen::MatrixXd before = around_mean(models);
    if (before.squaredNorm() < 1e-6 * first) break;  // At a lower scatter, rounding matters.
    bool whole = true;
    for (const ExchangeLog::Entry& entry : entries)
      whole = ExchangeLog::apply(entry, models) && whole;
    if (!whole) break;
    REQUIRE(pairs_of(entries) == pairs_of(plan.round(round)));
    const Eigen::MatrixXd after = around_mean(models);
    const double expected = (before.transpose() * m * before).trace();
    all.surprise.add((after.squaredNorm() - expected) / before.squaredNorm());
    const Eigen::RowVectorXd had = v.transpose() * before;
    const Eigen::RowVectorXd has = v.transpose() * after;
    all.slowest.add((had.dot(has) - (1 - alpha * l) * had.squaredNorm()) / before.squaredNorm());
    all.share.add(had.squaredNorm() / before.squaredNorm());
    ++rounds;
  }
  REQUIRE(rounds >= 2);
}

}  // namespace

TEST_CASE("real exchanges over a topology contract as its drawn matchings predict",
          "[sim][theory][topology]") {
  // A round mixes by W = I - a L with the Laplacian L of the plan's pairs. The test computes
  // M = E W'W = I - 2a(1-a) E[L] from the plan, and counts over 4000 other rounds how often each
  // edge is a pair. Rounds are drawn independently of the models x before them, so for each round
  //   (scatter after - trace(x'Mx)) / scatter before               has the mean 0, and so has
  //   (<v, x> <v, W x> - (1 - a l) <v, x>^2) / scatter before,
  // where v is the eigenvector of M's second eigenvalue 1 - 2a(1-a) l, the direction that contracts
  // the slowest, and 1 - a l is its eigenvalue in E[W]. Both means are checked over all rounds of
  // all seeds, to within 3 standard errors of the sample. M itself is known more precisely, because
  // each seed counts 4000 rounds for it and measures only 30.
  const auto [kind, peers, alpha] =
      GENERATE(table<TopologyKind, std::size_t, double>({{TopologyKind::ring, 8, 0.5},
                                                         {TopologyKind::ring, 7, 0.3},
                                                         {TopologyKind::torus, 9, 0.5},
                                                         {TopologyKind::star, 6, 0.5},
                                                         {TopologyKind::tree, 7, 0.5},
                                                         {TopologyKind::exponential, 8, 0.5},
                                                         {TopologyKind::random_regular, 12, 0.5},
                                                         {TopologyKind::matching, 8, 0.5}}));
  const Topology topology{.kind = kind};
  Measured all;
  constexpr int seeds = 60;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    measure(topology, peers, seed, alpha, all);
  }
  const Sample& surprise = all.surprise;
  const double predicted = all.predicted / seeds;
  const double off = all.slowest.mean() / all.share.mean();
  const double error = all.slowest.error() / all.share.mean();
  INFO(to_string(kind) << " of " << peers << ", a = " << alpha << ": scatter off by "
                       << surprise.mean() << " +- " << surprise.error()
                       << "; second eigenvalue predicted " << predicted << ", measured "
                       << predicted + off << " +- " << error);
  CHECK(surprise.error() < 0.01);
  CHECK(std::abs(surprise.mean()) <= 3 * surprise.error());
  CHECK(error < 0.02);
  CHECK(std::abs(off) <= 3 * error);
}

TEST_CASE("eight peers have one model after the three rounds of a hypercube",
          "[sim][theory][topology]") {
  // Rounds 1 and 2 belong to a period that began before the run. Rounds 3, 4 and 5 are a whole
  // period. Every exchange rounds to floats, by 6e-8 of a model, so the scatter keeps some 1e-14 of
  // its initial value.
  const TopologyKind kind =
      GENERATE(TopologyKind::hypercube, TopologyKind::one_peer_exponential, TopologyKind::base_k);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Simulator::Options options = even_world({.kind = kind}, 8, seed);
    ExchangeLog log;
    Simulator world(options, idle_peers(options));
    world.watch(log);
    world.run(Time(2150ms));
    const PairPlan plan({.kind = kind}, 8, seed);
    std::vector<std::vector<float>> models = log.start;
    const double first = scatter(models);
    INFO(to_string(kind) << ", seed " << seed);
    for (const auto& [round, entries] : by_round(log)) {
      if (round > 5) break;
      REQUIRE(pairs_of(entries) == pairs_of(plan.round(round)));
      if (round == 2) CHECK(scatter(models) > 1e-3 * first);
      for (const ExchangeLog::Entry& entry : entries) REQUIRE(ExchangeLog::apply(entry, models));
    }
    CHECK(scatter(models) < 1e-12 * first);
  }
}

TEST_CASE("spreads under a mixing matrix fall by its gap", "[theory][topology]") {
  // The test applies x <- W x to a random start, again and again, until only the slowest direction
  // is left. It skips 6000 rounds, after which all other directions are below 1e-12 of the slowest.
  // Over the next 200 rounds, the slope of ln |x| is within 1 % of the slope that the gap predicts.
  // x is scaled up again after each round, because 200 rounds leave 1e-60 of it.
  for (const std::size_t n : {8, 15, 16, 32}) {
    for (const TopologyKind kind : topology_kinds) {
      const Topology topology{.kind = kind};
      if (!is_graph(kind) || problem_of(topology, n)) continue;
      const Mixing round = mixing_of(topology, n, 4, 0);
      const double wanted = 1 - spectral_gap(topology, n, 4);
      if (wanted < 1e-12) continue;  // Complete topologies leave nothing to measure.
      Rng rng(n);
      std::vector<double> x(n);
      for (double& value : x) value = rng.normal();
      const auto centre = [&] {
        double mean = 0;
        for (const double value : x) mean += value / static_cast<double>(n);
        for (double& value : x) value -= mean;
      };
      double logarithm = 0;
      constexpr int before = 6000;
      for (int t = 0; t < before + 200; ++t) {
        mix(round, x);
        centre();
        const double length = norm(x);
        if (t >= before) logarithm += std::log(length);
        for (double& value : x) value /= length;
        if (t + 1 == before) logarithm = 0;
      }
      const double measured = logarithm / 200;
      INFO(to_string(kind) << " of " << n << ": slope " << measured << ", by the gap "
                           << std::log(wanted));
      CHECK(std::abs(measured / std::log(wanted) - 1) < 0.01);
    }
  }
}

TEST_CASE("over one period spreads fall by the norm of its product at most", "[theory][topology]") {
  for (const std::size_t n : {5, 6, 12, 25}) {
    for (const TopologyKind kind : {TopologyKind::one_peer_exponential, TopologyKind::moshpit}) {
      const Topology topology{.kind = kind};
      const Contraction left = contraction_of(topology, n, 0);
      double most = 0;
      for (std::uint64_t seed = 0; seed < 300; ++seed) {
        Rng rng(seed);
        std::vector<double> x(n);
        double mean = 0;
        for (double& value : x) mean += (value = rng.normal()) / static_cast<double>(n);
        for (double& value : x) value -= mean;
        const double first = norm(x);
        for (std::size_t t = 0; t < left.rounds; ++t) mix(mixing_of(topology, n, 0, t), x);
        most = std::max(most, norm(x) / first);
      }
      INFO(to_string(kind) << " of " << n << ": norm " << left.left << ", worst start " << most);
      CHECK(most <= left.left + 1e-12);
      CHECK(most > 0.5 * left.left);
    }
  }
}

TEST_CASE("uniform partners are neighbours and all of them", "[sim][topology]") {
  const TopologyKind kind =
      GENERATE(TopologyKind::ring, TopologyKind::torus, TopologyKind::random_regular);
  constexpr std::size_t peers = 9;
  Simulator::Options options = even_world({.kind = kind}, peers, 5);
  options.node.gossip.pairing = PairingKind::uniform;
  options.scenario.step_jitter = 0.2;
  ExchangeLog log;
  Simulator world(options, idle_peers(options));
  world.watch(log);
  world.run(Time(30s));
  std::set<Edge> met;
  for (const ExchangeLog::Entry& entry : log.entries) {
    met.insert(
        {std::min(entry.initiator, entry.responder), std::max(entry.initiator, entry.responder)});
  }
  const std::vector<Edge> edges = edges_of({.kind = kind}, peers, 5);
  CHECK(std::vector<Edge>(met.begin(), met.end()) == edges);
}

TEST_CASE("a hypercube that loses a peer goes on with anybody until it is back",
          "[sim][topology]") {
  Simulator::Options options = even_world({.kind = TopologyKind::hypercube}, 8, 3);
  options.scenario.faults = {fault(FaultKind::kill, 4s, just(5), 20s)};
  std::map<PeerNumber, int> unfit;
  std::map<PeerNumber, int> fits;
  FactWatch watch([&](const Simulator&, PeerNumber peer, const Fact& fact) {
    if (std::holds_alternative<TopologyUnfit>(fact)) ++unfit[peer];
    if (std::holds_alternative<TopologyFits>(fact)) ++fits[peer];
  });
  ExchangeLog log;
  Simulator world(options, idle_peers(options));
  world.watch(watch);
  world.watch(log);
  world.run(Time(20s));  // The peer is declared dead some five seconds after its death.
  CHECK(unfit.size() == 7);
  CHECK(fits.empty());
  const std::vector<std::uint64_t> with_seven = committed(world);
  world.run(Time(23s));
  const std::vector<std::uint64_t> later = committed(world);
  for (PeerNumber peer = 0; peer < 8; ++peer) {
    if (peer != 5) CHECK(later[peer] > with_seven[peer]);
  }
  const auto bits_apart = [](const ExchangeLog::Entry& entry) {
    return std::popcount(entry.initiator ^ entry.responder);
  };
  // Only three in seven of all pairs differ in a single bit, so with free choice other pairs occur.
  CHECK(std::ranges::any_of(log.entries, [&](const auto& e) { return bits_apart(e) > 1; }));
  world.run(Time(50s));
  CHECK(fits.size() >= 7);
  const std::size_t from = log.entries.size();
  world.run(Time(60s));
  CHECK(log.entries.size() > from + 50);
  for (std::size_t i = from; i < log.entries.size(); ++i) {
    CHECK(bits_apart(log.entries[i]) == 1);
  }
}

}  // namespace gv
