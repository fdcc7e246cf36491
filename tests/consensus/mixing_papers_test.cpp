// Mixing rules reproduce the results of their papers.
#include <Eigen/LU>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "consensus/topology/spectrum.hpp"
#include "tests/consensus/mixing_lab.hpp"

namespace gv {
namespace {

using Vector = MixingLab::Vector;

Eigen::MatrixXd matrix_of(const MixRule& rule, std::size_t peers, std::uint64_t round = 0) {
  const SquareMatrix w = mixing_matrix(RoundPlan(rule, peers, 1).round(round));
  Eigen::MatrixXd matrix(peers, peers);
  for (std::size_t i = 0; i < peers; ++i) {
    for (std::size_t j = 0; j < peers; ++j) {
      matrix(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j)) = w.at(i, j);
    }
  }
  return matrix;
}

/// The spread at the fixed point of adapt-then-combine D-PSGD with learning rate `eta`.
double settled_spread(std::size_t peers, double eta, const std::vector<Vector>& targets) {
  const Eigen::MatrixXd w = matrix_of({}, peers);
  Eigen::VectorXd b(peers);
  for (std::size_t i = 0; i < peers; ++i) b(static_cast<Eigen::Index>(i)) = targets[i][0];
  const Eigen::MatrixXd one = Eigen::MatrixXd::Identity(peers, peers);
  const Eigen::VectorXd x = (one - (1 - eta) * w).inverse() * (eta * w * b);
  return (x.array() - x.mean()).square().mean();
}

/// CHOCO with a codec that sends the largest tenth of 100 values.
MixRule choco(double gamma) {
  return {.gamma = gamma,
          .codec = {.kind = CodecKind::top_k, .fraction = 0.1},
          .memory = MixMemory::difference};
}

}  // namespace

TEST_CASE("everybody with everybody is all-reduced gradient descent", "[unit]") {
  const std::size_t peers = 6;
  const MixRule rule{.topology = {.kind = TopologyKind::complete}};
  const auto targets = drawn_models(peers, 4, 3);
  MixingLab lab(rule, std::vector<Vector>(peers, Vector(4, 0)));
  lab.rounds(20, pulls_to(targets), 0.1);
  Vector x(4, 0);
  for (int round = 0; round < 20; ++round) {
    for (std::size_t k = 0; k < 4; ++k) {
      double mean = 0;
      for (const Vector& b : targets) mean += (x[k] - b[k]) / static_cast<double>(peers);
      x[k] -= 0.1 * mean;
    }
  }
  for (const Vector& model : lab.models()) CHECK(largest_difference(model, x) < rounding);
}

// With f_i = (x - b_i)^2 / 2 and learning rate eta, the fixed points of the two orders solve x = W
// (x - eta (x - b)) and x = W x - eta (x - b).
TEST_CASE("both orders of D-PSGD settle where the linear equations say", "[unit]") {
  const std::size_t peers = 16;
  const double eta = 0.1;
  const auto targets = drawn_models(peers, 1, 11);
  Eigen::VectorXd b(peers);
  for (std::size_t i = 0; i < peers; ++i) b(static_cast<Eigen::Index>(i)) = targets[i][0];
  const Eigen::MatrixXd one = Eigen::MatrixXd::Identity(peers, peers);
  for (const MixOrder order : mix_orders) {
    const MixRule rule{.order = order};
    const Eigen::MatrixXd w = matrix_of(rule, peers);
    const Eigen::VectorXd expected = order == MixOrder::adapt_then_combine
                                         ? ((one - (1 - eta) * w).inverse() * (eta * w * b)).eval()
                                         : ((one - w + eta * one).inverse() * (eta * b)).eval();
    MixingLab lab(rule, std::vector<Vector>(peers, Vector(1, 0)));
    lab.rounds(2000, pulls_to(targets), eta);
    for (std::size_t i = 0; i < peers; ++i) {
      CHECK(lab.models()[i][0] == Approx(expected(static_cast<Eigen::Index>(i))).margin(1e-9));
    }
  }
}

// Lin 2021, and an analysis of its fixed points with learning rate eta and momentum beta. Local
// momentum has the fixed point of plain descent with the rate eta / (1 - beta). Quasi-global
// momentum has that of plain descent with the rate eta.
TEST_CASE("quasi-global momentum has the bias of plain descent and local momentum a larger one",
          "[unit]") {
  const std::size_t peers = 16;
  const double eta = 0.02;
  const double beta = 0.9;
  const auto targets = drawn_models(peers, 1, 11);
  MixingLab quasi({.correction = MixCorrection::quasi_global},
                  std::vector<Vector>(peers, Vector(1, 0)));
  quasi.rounds(20000, pulls_to(targets), eta);
  CHECK(quasi.spread_squared() == Approx(settled_spread(peers, eta, targets)).epsilon(1e-6));

  MixingLab local({}, std::vector<Vector>(peers, Vector(1, 0)));
  std::vector<double> velocity(peers, 0);
  const auto with_momentum = [&](std::size_t peer, const Vector& x) {
    velocity[peer] = beta * velocity[peer] + x[0] - targets[peer][0];
    return Vector{velocity[peer]};
  };
  local.rounds(20000, with_momentum, eta);
  CHECK(local.spread_squared() ==
        Approx(settled_spread(peers, eta / (1 - beta), targets)).epsilon(1e-6));
}

TEST_CASE("gradient tracking and D2 have no bias on unlike data", "[unit]") {
  const std::size_t peers = 16;
  const auto targets = drawn_models(peers, 3, 11);
  Vector optimum(3, 0);
  for (const Vector& b : targets) {
    for (std::size_t k = 0; k < 3; ++k) optimum[k] += b[k] / static_cast<double>(peers);
  }
  for (const MixCorrection correction : {MixCorrection::tracking, MixCorrection::d2}) {
    MixingLab lab(
        {.topology = {.kind = TopologyKind::ring, .lazy = true}, .correction = correction},
        std::vector<Vector>(peers, Vector(3, 0)));
    lab.rounds(6000, pulls_to(targets), 0.05);
    INFO(to_string(correction));
    for (const Vector& x : lab.models()) CHECK(largest_difference(x, optimum) < 1e-9);
  }
}

TEST_CASE("the trackers' mean is the mean of the last gradients", "[unit]") {
  MixingLab lab({.correction = MixCorrection::tracking}, drawn_models(7, 3));
  const auto targets = drawn_models(7, 3, 5);
  for (int round = 0; round < 20; ++round) {
    lab.round(pulls_to(targets), 0.1);
    Vector trackers(3, 0);
    Vector gradients(3, 0);
    for (const Mixer<double>& mixer : lab.mixers()) {
      for (std::size_t k = 0; k < 3; ++k) {
        trackers[k] += mixer.kept("tracker")[k];
        gradients[k] += mixer.kept("last_gradient")[k];
      }
    }
    CHECK(largest_difference(trackers, gradients) < rounding);
  }
}

// Tang 2018: if the weight matrix has an eigenvalue below -1/3, the recursion grows. A ring of 16
// peers with weights w has the smallest eigenvalue 1 - 4 w, which is -0.44 for w = 0.36. The lazy
// form halves the weights, which gives 0.28.
TEST_CASE("D2 runs apart below an eigenvalue of -1/3 and not above", "[unit]") {
  const auto diverges = [](bool lazy, double weight) {
    MixingLab lab({.topology = {.kind = TopologyKind::ring, .lazy = lazy},
                   .alpha = weight,
                   .correction = MixCorrection::d2},
                  drawn_models(16, 2));
    lab.rounds(400, pulls_to(drawn_models(16, 2, 3)), 0.02);
    return !(lab.spread_squared() < 1e3);
  };
  CHECK(diverges(false, 0.36));
  CHECK_FALSE(diverges(false, 0.25));
  CHECK_FALSE(diverges(true, 0.36));
}

// Yuan 2021 assumes one symmetric matrix W. Its recursion is stable for each eigenvalue of W in
// (-1, 1). A product of such recursions with different matrices need not be stable, and a recursion
// with complex eigenvalues is unstable.
TEST_CASE("DecentLaM runs apart where rounds differ or have directions and is refused there",
          "[unit]") {
  const std::map<TopologyKind, bool> stable = {
      {TopologyKind::ring, true},         {TopologyKind::complete, true},
      {TopologyKind::exponential, false}, {TopologyKind::one_peer_exponential, false},
      {TopologyKind::base_k, false},      {TopologyKind::matching, false}};
  for (const auto& [kind, is_stable] : stable) {
    INFO(to_string(kind));
    const MixRule rule{.topology = {.kind = kind}, .correction = MixCorrection::decentlam};
    CHECK(problems_of(rule, 8).empty() == is_stable);
    MixingLab lab(rule, drawn_models(8, 2));
    lab.rounds(3000, pulls_to(drawn_models(8, 2, 3)), 0.02);
    CHECK((lab.spread_squared() < 1e3) == is_stable);
  }
}

TEST_CASE("push-sum keeps all weight and comes to the mean on any graph", "[unit]") {
  for (const TopologyKind kind : {TopologyKind::exponential, TopologyKind::star,
                                  TopologyKind::one_peer_exponential, TopologyKind::ring}) {
    MixingLab lab({.topology = {.kind = kind}, .kind = MixKind::push_sum}, drawn_models(7, 3));
    const Vector mean = lab.mean();
    for (int round = 0; round < 400; ++round) {
      lab.round({}, 0);
      double weight = 0;
      for (const Mixer<double>& mixer : lab.mixers()) weight += mixer.weight();
      REQUIRE(weight == Approx(7).margin(rounding));
    }
    INFO(to_string(kind));
    for (const Vector& x : lab.models()) CHECK(largest_difference(x, mean) < 1e-9);
  }
}

TEST_CASE("push-sum by samples comes to the mean over samples, with steps to its optimum",
          "[unit]") {
  const std::vector<double> samples = {100, 7, 350, 20, 80};
  double all = 0;
  for (const double count : samples) all += count;
  const std::vector<Vector> models = drawn_models(5, 3);
  Vector mean(3, 0);
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t k = 0; k < 3; ++k) mean[k] += samples[i] / all * models[i][k];
  }
  for (const TopologyKind kind : {TopologyKind::exponential, TopologyKind::star}) {
    INFO(to_string(kind));
    MixRule rule{.topology = {.kind = kind}, .kind = MixKind::push_sum};
    rule.weigh_by_samples = true;
    MixingLab lab(rule, models, 1, samples);
    lab.rounds(400);
    for (const Vector& x : lab.models()) CHECK(largest_difference(x, mean) < 1e-9);
    // Every peer's own optimum is its initial model, so the common optimum is the mean of the
    // initial models. The bias is proportional to the learning rate, so it shrinks as the rate
    // falls.
    MixingLab steps(rule, models, 1, samples);
    const auto gradient = [&](std::size_t peer, const Vector& x) {
      Vector g(3);
      for (std::size_t k = 0; k < 3; ++k) g[k] = x[k] - models[peer][k];
      return g;
    };
    for (int round = 0; round < 4000; ++round) steps.round(gradient, 0.5 / (1 + 0.05 * round));
    for (const Vector& x : steps.models()) CHECK(largest_difference(x, mean) < 0.02);
  }
}

TEST_CASE("where as many come as go push-sum weighs everybody alike", "[unit]") {
  MixingLab lab(
      {.topology = {.kind = TopologyKind::one_peer_exponential}, .kind = MixKind::push_sum},
      drawn_models(8, 3));
  const Vector mean = lab.mean();
  lab.rounds(3);  // The result is exact after lg 8 rounds.
  for (const Mixer<double>& mixer : lab.mixers()) CHECK(mixer.weight() == 1);
  for (const Vector& x : lab.models()) CHECK(largest_difference(x, mean) < rounding);
}

TEST_CASE("relayed sums are exact after as many rounds as the tree is wide", "[unit]") {
  MixingLab lab({.topology = {.kind = TopologyKind::tree}, .kind = MixKind::relay_sum},
                drawn_models(7, 3));
  // Vogels 2021 with constant inputs: each step moves the model back to its input.
  const std::vector<Vector> inputs = lab.models();
  const Vector mean = lab.mean();
  const auto back = [&](std::size_t peer, const Vector& x) {
    Vector g(3);
    for (std::size_t k = 0; k < 3; ++k) g[k] = x[k] - inputs[peer][k];
    return g;
  };
  for (int round = 1; round <= 4; ++round) {
    lab.round(back, 1);
    const bool all_exact = std::ranges::all_of(
        lab.models(), [&](const Vector& x) { return largest_difference(x, mean) < rounding; });
    CHECK(all_exact == (round == 4));
  }
}

TEST_CASE("CHOCO with a tenth of all numbers agrees on the mean", "[unit]") {
  MixingLab lab(choco(0.2), drawn_models(16, 100));
  const Vector mean = lab.mean();
  lab.rounds(4000);
  // References are floats, so their rounding is the only error that remains.
  CHECK(largest_difference(lab.mean(), mean) < 1e-6);
  CHECK(lab.spread_squared() < 1e-9);
}

TEST_CASE("CHOCO runs apart with too long a step", "[unit]") {
  MixingLab lab(choco(1), drawn_models(16, 100));
  const double before = lab.spread_squared();
  lab.rounds(400);
  CHECK(lab.spread_squared() > 10 * before);
}

TEST_CASE("a codec without memory loses what its memory keeps", "[unit]") {
  MixRule naive = choco(0.2);
  naive.memory = MixMemory::none;
  CHECK_FALSE(problems_of(naive, 16).empty());
  MixingLab lab(naive, drawn_models(16, 100));
  lab.rounds(4000);
  CHECK(lab.spread_squared() > 0.1);
}

TEST_CASE("memory with a codec that loses nothing is D-PSGD", "[unit]") {
  const auto targets = drawn_models(8, 5, 3);
  MixingLab plain({}, drawn_models(8, 5));
  plain.rounds(30, pulls_to(targets), 0.1);
  for (const MixMemory memory : {MixMemory::difference, MixMemory::error_feedback}) {
    MixingLab lab({.memory = memory}, drawn_models(8, 5));
    lab.rounds(30, pulls_to(targets), 0.1);
    for (std::size_t i = 0; i < 8; ++i) {
      INFO(to_string(memory));
      CHECK(largest_difference(lab.models()[i], plain.models()[i]) < rounding);
    }
  }
}

// DCD-PSGD: x' = W x - eta g(x). With a codec that loses nothing, neighbours know the models
// exactly.
TEST_CASE("replicas with a codec that loses nothing combine and then adapt", "[unit]") {
  const auto targets = drawn_models(8, 5, 3);
  MixingLab lab({.memory = MixMemory::replicated_difference}, drawn_models(8, 5));
  lab.round({}, 0);  // In the first round neighbours learn each other's references.
  MixingLab plain({.order = MixOrder::combine_then_adapt}, lab.models());
  lab.rounds(30, pulls_to(targets), 0.1);
  plain.rounds(30, pulls_to(targets), 0.1);
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(largest_difference(lab.models()[i], plain.models()[i]) < rounding);
  }
}

TEST_CASE("NoLoCo's mean is that of heavy-ball DiLoCo", "[unit]") {
  const MixRule rule{.topology = {.kind = TopologyKind::matching},
                     .kind = MixKind::noloco,
                     .gamma = 0.7,
                     .momentum = 0.5,
                     .outer_learning_rate = 0.7};
  REQUIRE(problems_of(rule, 8).empty());
  const auto targets = drawn_models(8, 3, 5);
  MixingLab lab(rule, std::vector<Vector>(8, Vector(3, 0)));
  Vector slow(3, 0);
  Vector velocity(3, 0);
  // The gradients are linear here, so the mean of the changes is the change of the mean model.
  for (int round = 0; round < 40; ++round) {
    lab.round(pulls_to(targets), 0.1, 5);
    Vector fast = slow;
    for (int step = 0; step < 5; ++step) {
      for (std::size_t k = 0; k < 3; ++k) {
        double g = 0;
        for (const Vector& b : targets) g += (fast[k] - b[k]) / 8;
        fast[k] -= 0.1 * g;
      }
    }
    for (std::size_t k = 0; k < 3; ++k) {
      velocity[k] = 0.5 * velocity[k] + 0.7 * (fast[k] - slow[k]);
      slow[k] += velocity[k];
    }
    REQUIRE(largest_difference(lab.mean(), slow) < 1e-10);
  }
}

// Kolehmainen 2025, and a spectral analysis of its second moments. For n = 8 peers and gamma = 0.7
// the spectral radius is 0.668 with a momentum of 0.5, and above 1 with a momentum of 0.9.
TEST_CASE("NoLoCo agrees with momentum a half and runs apart with nine tenths", "[unit]") {
  const auto after = [](double momentum, int rounds) {
    MixingLab lab({.topology = {.kind = TopologyKind::matching},
                   .kind = MixKind::noloco,
                   .gamma = 0.7,
                   .momentum = momentum,
                   .outer_learning_rate = 0.7},
                  drawn_models(8, 64));
    lab.rounds(static_cast<std::size_t>(rounds));
    return lab.spread_squared();
  };
  CHECK(after(0.5, 60) < 1e-8);
  CHECK(after(0.9, 400) > 1e2);
}

TEST_CASE("SlowMo without momentum is the average it follows", "[unit]") {
  const auto targets = drawn_models(8, 3, 5);
  const MixRule rule{.topology = {.kind = TopologyKind::complete},
                     .outer = MixOuter::slowmo,
                     .outer_every = 4,
                     .outer_momentum = 0};
  MixingLab lab(rule, drawn_models(8, 3));
  MixingLab plain({.topology = {.kind = TopologyKind::complete}}, drawn_models(8, 3));
  lab.rounds(16, pulls_to(targets), 0.1);
  plain.rounds(16, pulls_to(targets), 0.1);
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(largest_difference(lab.models()[i], plain.models()[i]) < rounding);
  }
}

// Nabli 2023: the time to agreement shrinks from about chi1 rounds to about sqrt(chi1 chi2), with
// the paper's constants chi1 and chi2.
TEST_CASE("a shadow makes pairs along a ring agree in half the time", "[unit]") {
  const auto left = [](MixKind kind) {
    MixingLab lab({.partners = Partners::pairs, .kind = kind}, drawn_models(32, 200));
    const double before = lab.spread_squared();
    lab.rounds(150);
    return std::log(lab.spread_squared() / before);
  };
  const double plain = left(MixKind::average);
  const double companioned = left(MixKind::companion);
  INFO(plain << " and " << companioned);
  CHECK(companioned < 1.7 * plain);
}

TEST_CASE("EASGD keeps the sum of workers and centre", "[unit]") {
  const MixRule rule{.topology = {.kind = TopologyKind::star},
                     .order = MixOrder::combine_then_adapt,
                     .alpha = 0.9 / 6,
                     .centre_rests = true};
  REQUIRE(problems_of(rule, 7).empty());
  MixingLab lab(rule, drawn_models(7, 3));
  const Vector before = lab.mean();
  lab.rounds(200);
  CHECK(largest_difference(lab.mean(), before) < rounding);
  CHECK(lab.spread_squared() < 1e-9);
}

// Zhang 2015, with a linear analysis of the synchronous form: for p workers it is stable if alpha
// <= (2 - q) / (1 + p (1 - q/2)), where q is the curvature times the learning rate.
TEST_CASE("synchronous EASGD is stable up to the bound of its modes", "[unit]") {
  const auto grows = [](double alpha, double q) {
    MixingLab lab({.topology = {.kind = TopologyKind::star},
                   .order = MixOrder::combine_then_adapt,
                   .alpha = alpha,
                   .centre_rests = true},
                  drawn_models(5, 2));
    const auto workers = [q](std::size_t peer, const Vector& x) {
      Vector g(x.size(), 0);
      for (std::size_t k = 0; k < x.size() && peer > 0; ++k) g[k] = q * x[k];
      return g;
    };
    lab.rounds(4000, workers, 1);
    return !(lab.spread_squared() < 1);
  };
  const double bound = (2 - 0.1) / (1 + 4 * (1 - 0.05));
  CHECK_FALSE(grows(bound - 1e-3, 0.1));
  CHECK(grows(bound + 5e-3, 0.1));
}

TEST_CASE("the star of DOWNPOUR adds up what its workers do", "[unit]") {
  const MixRule rule{
      .topology = {.kind = TopologyKind::star}, .kind = MixKind::downpour, .centre_rests = true};
  MixingLab lab(rule, std::vector<Vector>(5, Vector(2, 0)));
  const auto constant = [](std::size_t peer, const Vector&) {
    return Vector(2, peer > 0 ? -1.0 : 0.0);
  };
  lab.rounds(10, constant, 0.5);
  CHECK(lab.models()[0] == Vector(2, 4 * 10 * 0.5));
}

// Jin 2016: how one round of pulling with b = 1/2 changes S = sum ||x_i - mean||^2 and the mean.
TEST_CASE("pulling contracts and moves the mean as much as is known", "[unit]") {
  const std::size_t n = 8;
  const auto start = drawn_models(n, 50000);
  MixingLab lab({.topology = {.kind = TopologyKind::complete}, .partners = Partners::pull}, start);
  const double s = lab.spread_squared() * n;
  const Vector mean = lab.mean();
  // In one round all elements share the same draws, so the test needs many rounds rather than many
  // elements.
  double ratio = 0;
  double drift = 0;
  const int draws = 4000;
  for (int draw = 0; draw < draws; ++draw) {
    MixingLab one({.topology = {.kind = TopologyKind::complete}, .partners = Partners::pull},
                  drawn_models(n, 8, 7), 100 + static_cast<std::uint64_t>(draw));
    const double before = one.spread_squared() * n;
    const Vector mean_before = one.mean();
    one.round({}, 0);
    ratio += one.spread_squared() * n / before / draws;
    const Vector moved = one.mean();
    for (std::size_t k = 0; k < moved.size(); ++k) {
      drift += std::pow(moved[k] - mean_before[k], 2) / before / draws;
    }
  }
  CHECK(s > 0);
  CHECK(mean.size() == 50000);
  // The closed forms are 0.39796 and 0.003827. The standard deviations of one draw are below 0.15
  // and 0.005.
  CHECK(ratio == Approx(0.39796).margin(3 * 0.15 / std::sqrt(draws)));
  CHECK(drift == Approx(0.003827).margin(3 * 0.005 / std::sqrt(draws)));
}

}  // namespace gv
