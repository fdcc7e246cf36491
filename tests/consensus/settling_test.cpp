// With accepted rules, models converge and keep their sum. With rules beyond the bounds, models
// diverge.
#include <catch2/catch.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "consensus/mixing/codec_bounds.hpp"
#include "tests/consensus/mixing_lab.hpp"

namespace gv {
namespace {

/// The squared spread after some rounds without local steps, relative to the spread at the start.
double left_after(const MixRule& rule, std::size_t rounds, std::size_t peers = 8,
                  double learning_rate = 0) {
  MixingLab lab(rule, drawn_models(peers, 4));
  const double first = lab.spread_squared();
  const auto flat = [](std::size_t, const MixingLab::Vector& x) {
    return MixingLab::Vector(x.size(), 0);
  };
  for (std::size_t round = 0; round < rounds && lab.spread_squared() < 1e9; ++round) {
    lab.round(flat, learning_rate);
  }
  return lab.spread_squared() / first;
}

bool is_refused(const MixRule& rule, const std::string& place, std::size_t peers = 8) {
  for (const Problem& problem : problems_of(rule, peers)) {
    if (problem.place == place) return true;
  }
  return false;
}

MixRule noloco(const Topology& topology, Partners partners, double momentum, double gamma) {
  return {.topology = topology,
          .partners = partners,
          .kind = MixKind::noloco,
          .gamma = gamma,
          .momentum = momentum};
}

}  // namespace

TEST_CASE("a weight of each neighbour is no larger than a mean where all are neighbours",
          "[unit]") {
  const MixRule rule{.topology = {.kind = TopologyKind::hypercube}, .alpha = 0.33};
  REQUIRE(problems_of(rule, 8).empty());
  CHECK(RoundPlan(rule, 8, 1).round(0)[0][0].weight == 0.33);
  // Seven peers cannot form a hypercube, and with six neighbours a weight of a third each would
  // overshoot.
  const Mixing round = RoundPlan(rule, 7, 1).round(0);
  for (std::size_t rank = 0; rank < 7; ++rank) CHECK(own_share(round, rank) > 0);
  for (const std::size_t peers : {7, 8}) CHECK(left_after(rule, 400, peers) < 1e-6);
}

TEST_CASE("lazy halves all weights however neighbours are chosen and weighed", "[unit]") {
  for (const Partners partners : partner_kinds) {
    for (const double alpha : {0.0, 0.2}) {
      MixRule rule{.topology = {.kind = TopologyKind::ring}, .partners = partners, .alpha = alpha};
      const Mixing eager = RoundPlan(rule, 8, 1).round(3);
      rule.topology.lazy = true;
      const Mixing lazy = RoundPlan(rule, 8, 1).round(3);
      INFO(to_string(partners) << ", alpha " << alpha);
      for (std::size_t rank = 0; rank < 8; ++rank) {
        CHECK(1 - own_share(lazy, rank) == Approx((1 - own_share(eager, rank)) / 2));
      }
    }
  }
}

TEST_CASE("D2 settles wherever it is accepted and not where rounds differ", "[unit]") {
  std::size_t accepted = 0;
  for (const TopologyKind kind : topology_kinds) {
    for (const Partners partners : partner_kinds) {
      for (const double alpha : {0.0, 0.1, 0.14, 0.5}) {
        const MixRule rule{.topology = {.kind = kind, .lazy = true},
                           .partners = partners,
                           .alpha = alpha,
                           .correction = MixCorrection::d2};
        if (!problems_of(rule, 8).empty()) continue;
        ++accepted;
        INFO(name_of(rule) << ", alpha " << alpha);
        CHECK(left_after(rule, 400) < 1e-3);
      }
    }
  }
  CHECK(accepted > 15);
  const auto lazy = [](TopologyKind kind, Partners partners = Partners::neighbours) {
    return MixRule{.topology = {.kind = kind, .lazy = true, .hosts_every = 8},
                   .partners = partners,
                   .correction = MixCorrection::d2};
  };
  for (const MixRule& rule :
       {lazy(TopologyKind::hosts), lazy(TopologyKind::star, Partners::pairs)}) {
    CHECK(is_refused(rule, "topology"));
    CHECK(left_after(rule, 2000) > 1e3);
  }
  MixRule far = lazy(TopologyKind::ring);
  far.gamma = 2.5;
  CHECK(is_refused(far, "gamma"));
  CHECK(left_after(far, 400) > 1e3);
}

TEST_CASE("models that are pushed with too much weight run apart and are refused", "[unit]") {
  const auto pushed = [](double alpha) {
    return MixRule{
        .topology = {.kind = TopologyKind::complete}, .partners = Partners::push, .alpha = alpha};
  };
  CHECK(problems_of(pushed(0.6), 64).empty());
  CHECK(left_after(pushed(0.6), 200, 64) < 1e-6);
  CHECK(is_refused(pushed(0.9), "alpha", 64));
  CHECK(left_after(pushed(0.9), 400, 64) > 1e3);
}

TEST_CASE("a gamma that makes differences overshoot is refused where it does", "[unit]") {
  for (const TopologyKind kind :
       {TopologyKind::ring, TopologyKind::complete, TopologyKind::hypercube}) {
    MixRule rule{.topology = {.kind = kind}};
    const double bound = 2 / largest_pull(rule, 8);
    INFO(to_string(kind) << " " << bound);
    rule.gamma = 0.97 * bound;
    CHECK(problems_of(rule, 8).empty());
    CHECK(left_after(rule, 400) < 1e-3);
    rule.gamma = 1.03 * bound;
    CHECK(is_refused(rule, "gamma"));
    CHECK(left_after(rule, 400) > 1e3);
  }
  // Each of these rules has rounds that differ. All of them diverged and were once accepted.
  const auto drawn = [](TopologyKind kind, Partners partners, double alpha, double gamma) {
    return MixRule{
        .topology = {.kind = kind}, .partners = partners, .gamma = gamma, .alpha = alpha};
  };
  using enum TopologyKind;
  for (const MixRule& rule :
       {drawn(complete, Partners::pairs, 0, 2.2), drawn(matching, Partners::neighbours, 0, 3),
        drawn(complete, Partners::both, 0.4, 2), drawn(complete, Partners::both, 0, 3),
        drawn(complete, Partners::push, 0.6, 1.5), drawn(complete, Partners::pull, 0, 3),
        drawn(base_k, Partners::neighbours, 0, 3), drawn(moshpit, Partners::neighbours, 0, 3),
        drawn(one_peer_exponential, Partners::neighbours, 0, 3)}) {
    INFO(name_of(rule) << ", alpha " << rule.alpha << ", gamma " << rule.gamma);
    CHECK(is_refused(rule, "gamma"));
    CHECK(left_after(rule, 400) > 1e3);
    MixRule mild = rule;
    mild.gamma = 1;
    CHECK(problems_of(mild, 8).empty());
    CHECK(left_after(mild, 400) < 1e-3);
  }
  MixRule companion = drawn(ring, Partners::pairs, 0, 1.1);
  companion.kind = MixKind::companion;
  CHECK(is_refused(companion, "gamma"));
  companion.gamma = 1;
  CHECK(problems_of(companion, 8).empty());
  // In a ring of even size, neighbours would swap their models forever.
  CHECK(is_refused({.alpha = 0.5}, "gamma"));
  CHECK(left_after({.alpha = 0.5}, 400) > 0.1);
}

TEST_CASE("NoLoCo settles below its largest gamma and not above", "[unit]") {
  const Topology matching{.kind = TopologyKind::matching};
  const Topology hosts{.kind = TopologyKind::hosts, .hosts_every = 64};
  const Topology cube{.kind = TopologyKind::base_k};
  for (const double a : {0.0, 0.3, 0.5, 0.9}) {
    INFO("momentum " << a);
    const double drawn = 2 * (1 - a * a);
    const double fixed = 2 * (1 - a);
    for (const auto& [topology, bound] :
         {std::pair{matching, drawn}, std::pair{hosts, fixed}, std::pair{cube, fixed}}) {
      INFO(to_string(topology.kind));
      const auto rule = [&, t = topology](double gamma) {
        return noloco(t, Partners::neighbours, a, gamma);
      };
      CHECK(problems_of(rule(0.95 * bound), 8).empty());
      CHECK(left_after(rule(0.95 * bound), 3000) < 1e-3);
      CHECK(is_refused(rule(1.01 * bound), "gamma"));
    }
    // Two hosts of equal size differ in only one direction, and that difference shrinks only in one
    // round of 64.
    CHECK(left_after(noloco(hosts, Partners::neighbours, a, 1.15 * fixed), 3000) > 1e3);
    // With random partners along a ring, slowly changing differences stay untouched for a long
    // time.
    for (const Partners partners : {Partners::pairs, Partners::both}) {
      const MixRule rule = noloco({.kind = TopologyKind::ring}, partners, a, 0.95 * fixed);
      INFO(to_string(partners));
      CHECK(problems_of(rule, 8).empty());
      CHECK(left_after(rule, 3000) < 1e-3);
    }
  }
  CHECK(is_refused(noloco(matching, Partners::neighbours, 0.5, 2.5), "gamma"));
  CHECK(is_refused(noloco(matching, Partners::neighbours, 0, 2.5), "gamma"));
  CHECK(is_refused(noloco({.kind = TopologyKind::ring}, Partners::neighbours, 0, 1.6), "gamma"));
}

TEST_CASE("rules with a momentum that hosts carry apart between meetings are refused", "[unit]") {
  const auto quasi = [](std::uint32_t every) {
    return MixRule{.topology = {.kind = TopologyKind::hosts, .hosts_every = every},
                   .correction = MixCorrection::quasi_global};
  };
  CHECK(problems_of(quasi(16), 8).empty());
  CHECK(left_after(quasi(16), 3000, 8, 0.1) < 1e-6);
  CHECK(is_refused(quasi(32), "hosts_every"));
  CHECK(left_after(quasi(32), 3000, 8, 0.1) > 1e3);
  const auto slow = [](std::uint64_t every) {
    return MixRule{
        .topology = {.kind = TopologyKind::hosts}, .outer = MixOuter::slowmo, .outer_every = every};
  };
  for (const std::uint64_t every : {16, 17, 24, 32}) {
    INFO(every);
    CHECK(problems_of(slow(every), 8).empty());
    CHECK(left_after(slow(every), 3000, 8, 0.1) < 1e-6);
  }
  CHECK(is_refused(slow(8), "outer_every"));
}

TEST_CASE("a change that reached no peer goes up with the next", "[unit]") {
  const TopologyKind kind = GENERATE(TopologyKind::star, TopologyKind::tree);
  constexpr std::size_t peers = 7;
  MixingLab lab({.topology = {.kind = kind}, .kind = MixKind::downpour},
                std::vector<MixingLab::Vector>(peers, MixingLab::Vector(1, 0)));
  double changes = 0;
  for (std::size_t i = 0; i < peers; ++i) {
    lab.mixers()[i].begin_round(0, lab.models()[i]);
    lab.models()[i][0] += static_cast<double>(i + 1);
    changes += static_cast<double>(i + 1);
    lab.mixers()[i].end_steps(lab.models()[i], 0, 1);
    lab.mixers()[i].messages(0, lab.models()[i]);
    lab.mixers()[i].close_generation({}, true);
  }
  lab.begin(2);
  // All changes reach the root within as many rounds as the tree has levels.
  lab.rounds(3);
  CHECK(lab.models()[0][0] == Approx(changes));
}

}  // namespace gv
