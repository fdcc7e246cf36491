// Layouts of stages compared with every other layout, and ballots that adopt them.
#include "consensus/pipeline/stage_layout.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "base/shares.hpp"
#include "consensus/pipeline/replay.hpp"
#include "consensus/pipeline/stage_plan.hpp"
#include "consensus/split/plan_search.hpp"
#include "peer/modes/stage_planner.hpp"

namespace gv {
namespace {

using Stages = std::vector<std::vector<std::uint32_t>>;

/// Stages that take these fractions of a micro-batch's time. If `group` is above 1, groups can
/// share every stage.
LayoutCosts costs_of(const std::vector<double>& seconds, std::size_t group = 1) {
  LayoutCosts costs{
      .stages = {}, .router = RouterKind::throughput, .micro_batches = 8, .group = group};
  for (const double own : seconds) {
    SplitLayer stage;
    stage.operations = own / 3;
    stage.weights = 1000;
    stage.inputs = costs.stages.empty() ? 0 : 1000;
    if (group > 1) {
      stage.slices = 24;
      stage.units.push_back({.operations = own / 3,
                             .weights = 900,
                             .grains = 24,
                             .inputs = stage.inputs,
                             .outputs = 1000});
    }
    costs.stages.push_back(std::move(stage));
  }
  return costs;
}

SplitSite site_of(const std::vector<double>& speeds, const SplitLink& link = {}) {
  SplitSite site;
  for (const double speed : speeds) site.peers.push_back({{}, speed, 0});
  site.links.assign(speeds.size(), std::vector<SplitLink>(speeds.size(), link));
  return site;
}

/// A layout in which every peer is alone in its group.
StageLayout alone(Stages stages) {
  const std::vector<GroupSize> sizes(stages.size());
  PeerGroups groups = peer_groups(stages, sizes);
  return {std::move(stages), std::move(groups)};
}

using Pins = std::vector<std::optional<std::uint32_t>>;

bool keeps_pins(const Stages& stages, const Pins& pins) {
  for (std::size_t peer = 0; peer < pins.size(); ++peer) {
    if (pins[peer] && std::ranges::count(stages[peer], *pins[peer]) == 0) return false;
  }
  return true;
}

/// The shortest predicted step over all ways to cut the stages and give each peer one of the parts,
/// with pinned peers at their stages. Written from the definition, not from the search.
double least_step(const LayoutCosts& costs, const SplitSite& site, const Pins& pins = {}) {
  const std::size_t stages = costs.stages.size();
  const std::size_t peers = site.peers.size();
  std::optional<double> least;
  for (std::uint32_t cuts = 0; cuts < 1U << (stages - 1); ++cuts) {
    Stages parts = {{0}};
    for (std::uint32_t stage = 1; stage < stages; ++stage) {
      if ((cuts >> (stage - 1) & 1U) != 0) parts.emplace_back();
      parts.back().push_back(stage);
    }
    std::size_t ways = 1;
    for (std::size_t peer = 0; peer < peers; ++peer) ways *= parts.size();
    for (std::size_t way = 0; way < ways; ++way) {
      Stages of_peers;
      std::vector<bool> is_carried(parts.size(), false);
      for (std::size_t peer = 0, left = way; peer < peers; ++peer, left /= parts.size()) {
        is_carried[left % parts.size()] = true;
        of_peers.push_back(parts[left % parts.size()]);
      }
      if (std::ranges::find(is_carried, false) != is_carried.end()) continue;
      if (!keeps_pins(of_peers, pins)) continue;
      const double seconds = predicted_step(alone(std::move(of_peers)), costs, site);
      if (!least || seconds < *least) least = seconds;
    }
  }
  return *least;
}

std::vector<double> drawn_speeds(Rng& rng, std::size_t peers) {
  std::vector<double> speeds;
  for (std::size_t i = 0; i < peers; ++i) speeds.push_back(0.25 + 2 * rng.uniform());
  return speeds;
}

/// The peers' answers to the next ballot after these assignments.
std::vector<StageOffer> offers_after(const std::vector<StageAssignment>& assignments,
                                     const std::vector<double>& speeds) {
  std::vector<StageOffer> offers;
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    StageOffer offer{PeerId{i + 1}, speeds[i], {}};
    for (const StageAssignment& own : assignments) {
      if (own.carrier == offer.peer) offer.holdings.push_back({own.stage, true, {7, 70, 7}});
    }
    offers.push_back(std::move(offer));
  }
  return offers;
}

std::vector<StageOffer> newcomers(const std::vector<double>& speeds) {
  std::vector<StageOffer> offers;
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    offers.push_back({PeerId{i + 1}, speeds[i], {{0, false, {}}}});
  }
  return offers;
}

StagePlanOptions planning(const LayoutCosts& costs) {
  std::vector<std::size_t> slices;
  for (const SplitLayer& stage : costs.stages) {
    slices.push_back(stage.units.empty() ? 0 : stage.slices);
  }
  return {
      .parts = StageParts(slices), .group = {.least = 1, .most = costs.group}, .layouts = costs};
}

std::vector<double> seconds_of(const LayoutCosts& costs) {
  std::vector<double> seconds;
  for (const SplitLayer& stage : costs.stages) seconds.push_back(3 * stage.operations);
  return seconds;
}

/// One to four stages, and peers with random speeds.
std::pair<LayoutCosts, SplitSite> drawn_case(Rng& rng, std::size_t peers) {
  std::vector<double> seconds;
  for (std::size_t s = 0, all = 1 + rng.below(4); s < all; ++s) {
    seconds.push_back(0.1 + rng.uniform());
  }
  return {costs_of(seconds),
          site_of(drawn_speeds(rng, peers), {.latency_s = 0.001, .bytes_per_s = 1e6})};
}

/// Random pins for about half of the peers.
Pins drawn_pins(Rng& rng, std::size_t peers, const LayoutCosts& costs) {
  Pins pins(peers);
  for (auto& pin : pins) {
    if (rng.chance(0.5)) pin = static_cast<std::uint32_t>(rng.below(costs.stages.size()));
  }
  return pins;
}

/// The best layout of these peers that keeps the pins.
StageLayout best_with(const Pins& pins, const LayoutCosts& costs, const SplitSite& site) {
  const auto best = best_layout(alone(Stages(pins.size())), costs, site, pins);
  REQUIRE(best);
  CHECK(keeps_pins(best->stages, pins));
  return *best;
}

}  // namespace

TEST_CASE("a predicted step is the schedule on a clock", "[unit]") {
  LayoutCosts costs = costs_of({0.5, 0.3, 0.2});
  costs.stages[1].inputs = costs.stages[2].inputs = 250;
  const SplitSite site = site_of({2, 1, 1}, {.latency_s = 0.01, .bytes_per_s = 1e4});
  PipelineCosts clock{.stages = {}, .boundaries = {{0.1, 0.01}, {0.1, 0.01}}, .speeds = {2, 1, 1}};
  for (const double own : {0.5, 0.3, 0.2}) clock.stages.push_back({own / 3, own / 3, own / 3, 0});
  const double on_clock =
      replay(make_schedule(costs.kind, straight_routes(3, 8), 3, 0, costs.ahead), clock).makespan;
  const StageLayout chain = alone({{0}, {1}, {2}});
  // All peers must learn of the end, which takes one latency.
  CHECK(predicted_step(chain, costs, site) == Approx(on_clock + 0.01));
}

TEST_CASE("a link that carries nothing delays only the plans that use it", "[unit]") {
  const LayoutCosts costs = costs_of({0.5, 0.3, 0.2});
  const SplitSite site = site_of({2, 1, 1}, {.latency_s = 0.01, .bytes_per_s = 1e4});
  SplitSite broken = site;
  broken.links[0][2] = broken.links[2][0] = {.latency_s = 1000, .bytes_per_s = 1};
  const StageLayout past = alone({{0}, {1}, {2}});
  const StageLayout over = alone({{0}, {2}, {1}});
  CHECK(predicted_step(past, costs, broken) == predicted_step(past, costs, site));
  CHECK(predicted_step(over, costs, broken) > 1000);
}

TEST_CASE("replicas sum their gradients at the end of a predicted step", "[unit]") {
  const LayoutCosts costs = costs_of({1});
  const SplitLink link{.latency_s = 0, .bytes_per_s = 4000};
  const StageLayout both = alone({{0}, {0}});
  CHECK(predicted_step(both, costs, site_of({1, 1})) == Approx(4));
  // There are two gathers of 1000 floats, and each of the two peers holds half of the floats.
  CHECK(predicted_step(both, costs, site_of({1, 1}, link)) == Approx(4 + 2 * 0.5));
}

TEST_CASE("the members of a group share a pass and exchange what they compute", "[unit]") {
  const LayoutCosts costs = costs_of({1}, 2);
  StageLayout pair = alone({{0}, {0}});
  pair.groups = numbered({{0, 1}}, 2);
  CHECK(predicted_step(pair, costs, site_of({3, 1})) == Approx(8 * 0.25));
  // Each pass has a sum of 1000 floats. At the end comes a sum of the 100 floats that all members
  // have.
  const SplitLink link{.latency_s = 0, .bytes_per_s = 4000};
  CHECK(predicted_step(pair, costs, site_of({3, 1}, link)) == Approx(8 * (0.25 + 1) + 0.1));
}

TEST_CASE("no way to give peers whole stages is predicted to be much faster than the best one",
          "[unit]") {
  Rng rng(7);
  for (int draw = 0; draw < 40; ++draw) {
    const std::size_t peers = 2 + rng.below(3);
    const auto [costs, site] = drawn_case(rng, peers);
    const auto best = best_layout(alone(Stages(peers)), costs, site);
    REQUIRE(best);
    CHECK(predicted_step(*best, costs, site) < 1.05 * least_step(costs, site));
  }
}

TEST_CASE("no way that keeps the pins is predicted to be much faster than the best one", "[unit]") {
  Rng rng(13);
  for (int draw = 0; draw < 40; ++draw) {
    const std::size_t peers = 2 + rng.below(3);
    const auto [costs, site] = drawn_case(rng, peers);
    const Pins pins = drawn_pins(rng, peers, costs);
    const StageLayout best = best_with(pins, costs, site);
    CHECK(predicted_step(best, costs, site) < 1.05 * least_step(costs, site, pins));
  }
}

TEST_CASE("pins hold where too many peers are there to try every order", "[unit]") {
  Rng rng(17);
  for (int draw = 0; draw < 30; ++draw) {
    const std::size_t peers = 5 + rng.below(3);
    const auto [costs, site] = drawn_case(rng, peers);
    best_with(drawn_pins(rng, peers, costs), costs, site);
  }
}

TEST_CASE("a ballot gives pinned peers their stages with every kind of plan", "[unit]") {
  const LayoutCosts costs = costs_of({0.25, 0.25, 0.25, 0.25});
  StagePlanOptions steady;
  StagePlanOptions mirrored{.mirrored = true};
  for (StagePlanOptions options : {planning(costs), steady, mirrored}) {
    options.pins = {{PeerId{1}, 3}, {PeerId{4}, 0}, {PeerId{9}, 2}};
    std::vector<StageOffer> offers = newcomers({1, 1, 1, 1});
    for (int ballot = 0; ballot < 3; ++ballot) {
      const auto plan = plan_stages(offers, seconds_of(costs), options);
      REQUIRE(plan);
      const auto carries = [&](std::uint32_t stage, std::uint64_t peer) {
        return std::ranges::any_of(plan->assignments, [&](const StageAssignment& one) {
          return one.stage == stage && one.carrier == PeerId{peer};
        });
      };
      CHECK(carries(3, 1));
      CHECK(carries(0, 4));
      // A plan with layouts may give the peer other stages as well.
      if (!options.layouts) CHECK(carries(0, 1) == options.mirrored);
      offers = offers_after(plan->assignments, {1, 0.2, 3, 1});
    }
  }
}

TEST_CASE("groups are chosen on fast links and replicas on slow ones", "[unit]") {
  LayoutCosts costs = costs_of({0.5, 0.5}, 4);
  costs.micro_batches = 2;
  const auto largest = [&](const SplitLink& link) {
    const auto best = best_layout(alone(Stages(4)), costs, site_of({1, 1, 1, 1}, link));
    REQUIRE(best);
    std::size_t most = 0;
    for (const auto& members : best->groups.members) most = std::max(most, members.size());
    return most;
  };
  CHECK(largest({.latency_s = 1e-6, .bytes_per_s = 1e9}) > 1);
  CHECK(largest({.latency_s = 0.1, .bytes_per_s = 1e5}) == 1);
}

TEST_CASE("a plan depends on speeds and not on the order of peers", "[unit]") {
  Rng rng(11);
  for (int draw = 0; draw < 60; ++draw) {
    const std::size_t peers = 2 + rng.below(5);
    const bool are_few = rng.chance(0.5);
    const LayoutCosts costs = costs_of(
        are_few ? std::vector{0.55, 0.45} : std::vector{0.4, 0.3, 0.2, 0.1}, 1 + rng.below(3));
    std::vector<double> speeds = drawn_speeds(rng, peers);
    const SplitLink link{.latency_s = 1e-4, .bytes_per_s = 1e7};
    const auto predicted = [&] {
      const SplitSite site = site_of(speeds, link);
      const auto best = best_layout(alone(Stages(peers)), costs, site);
      REQUIRE(best);
      CHECK(best == best_layout(alone(Stages(peers)), costs, site));
      for (const auto& stages : best->stages) CHECK_FALSE(stages.empty());
      for (const auto& members : best->groups.members) CHECK(members.size() <= costs.group);
      return predicted_step(*best, costs, site);
    };
    const double first = predicted();
    rng.shuffle(std::span(speeds));
    // With more than four peers, only some orders are searched, and the peers' numbers decide
    // which.
    CHECK(predicted() == Approx(first).epsilon(worth_changing));
  }
}

TEST_CASE("a ballot changes all stages at once where that is worth it, and then nothing",
          "[unit]") {
  const LayoutCosts costs = costs_of({0.25, 0.25, 0.25, 0.25});
  const std::vector<double> equal = {1, 1, 1, 1};
  const auto begin = plan_stages(newcomers({0, 0, 0, 0}), seconds_of(costs), planning(costs));
  REQUIRE(begin);
  auto plan =
      plan_stages(offers_after(begin->assignments, equal), seconds_of(costs), planning(costs));
  REQUIRE(plan);
  // Now one peer becomes slow.
  const std::vector<double> unlike = {1, 0.2, 1, 1};
  const auto keeps = plan->assignments;
  const auto better = plan_stages(offers_after(keeps, unlike), seconds_of(costs), planning(costs));
  REQUIRE(better);
  CHECK(better->assignments != keeps);
  // Peers whose speeds vary a little keep their stages.
  Rng rng(3);
  for (int ballot = 0; ballot < 20; ++ballot) {
    std::vector<double> speeds = unlike;
    for (double& speed : speeds) speed *= 0.96 + 0.08 * rng.uniform();
    const auto next =
        plan_stages(offers_after(better->assignments, speeds), seconds_of(costs), planning(costs));
    REQUIRE(next);
    CHECK(next->assignments == better->assignments);
  }
}

TEST_CASE("a peer that states no finite speed is planned like the median of the others", "[unit]") {
  const LayoutCosts costs = costs_of({0.4, 0.3, 0.2, 0.1}, 2);
  const auto begin = plan_stages(newcomers({0, 0, 0}), seconds_of(costs), planning(costs));
  REQUIRE(begin);
  const auto assignments = [&](double stated) {
    const auto plan = plan_stages(offers_after(begin->assignments, {1, stated, 0.2}),
                                  seconds_of(costs), planning(costs));
    REQUIRE(plan);
    return plan->assignments;
  };
  CHECK(assignments(std::numeric_limits<double>::infinity()) == assignments(0));
  CHECK(assignments(std::numeric_limits<double>::quiet_NaN()) == assignments(0));
}

TEST_CASE("groups stay as they are until another layout is worth the change", "[unit]") {
  const LayoutCosts costs = costs_of({1}, 4);
  std::vector<StageAssignment> pairs;
  for (std::uint64_t id = 1; id <= 4; ++id) {
    pairs.push_back({0, PeerId{id}, PeerId{id}});
    const std::uint32_t begin = id % 2 == 1 ? 1 : 13;
    for (std::uint32_t part = begin; part < begin + 12; ++part) {
      pairs.push_back({part, PeerId{id}, PeerId{id}});
    }
  }
  const LinkBetween slow = [](PeerId, PeerId) { return SplitLink{0.001, 1e6}; };
  const auto plan =
      plan_stages(offers_after(pairs, {1, 1, 1, 1}), seconds_of(costs), planning(costs), slow);
  REQUIRE(plan);
  const std::vector<PeerId> order = {PeerId{1}, PeerId{2}, PeerId{3}, PeerId{4}};
  const auto groups = [&](const StagePlan& made) {
    return groups_of(held_parts(order, made.assignments, planning(costs).parts),
                     planning(costs).parts)
        .members;
  };
  CHECK(groups(*plan) == Stages{{0, 1}, {2, 3}});
  // If exchanges are slow, each peer makes its passes alone.
  const LinkBetween slowest = [](PeerId, PeerId) { return SplitLink{0.1, 1e4}; };
  const auto apart =
      plan_stages(offers_after(pairs, {1, 1, 1, 1}), seconds_of(costs), planning(costs), slowest);
  REQUIRE(apart);
  CHECK(groups(*apart) == Stages{{0}, {1}, {2}, {3}});
}

TEST_CASE("no plan has more assignments than fit into a message", "[unit]") {
  // Eight whole replicas would be faster, but their 8 * 8 * 25 assignments do not fit into a
  // message.
  const LayoutCosts costs = costs_of(std::vector<double>(8, 1.0 / 8), 2);
  const SplitLink link{.latency_s = 60e-6, .bytes_per_s = 1.25e9};
  const auto best = best_layout(alone(Stages(8)), costs, site_of(std::vector<double>(8, 5), link));
  REQUIRE(best);
  std::size_t assignments = 0;
  for (const auto& members : best->groups.members) {
    assignments += best->stages[members.front()].size() * (24 + members.size());
  }
  CHECK(assignments <= 1024);
}

TEST_CASE("the layout of as many peers and stages as are planned is found", "[unit]") {
  std::vector<double> seconds(planned_stages_max, 1.0 / planned_stages_max);
  Rng rng(5);
  const std::vector<double> speeds = drawn_speeds(rng, planned_peers_max);
  LayoutCosts costs = costs_of(seconds, 4);
  costs.micro_batches = GENERATE(8, planned_micro_batches_max);
  const auto site = site_of(speeds, {.latency_s = 1e-4, .bytes_per_s = 1e8});
  const auto best = best_layout(alone(Stages(planned_peers_max)), costs, site);
  REQUIRE(best);
  const double ideal =
      static_cast<double>(costs.micro_batches) / std::accumulate(speeds.begin(), speeds.end(), 0.0);
  CHECK(predicted_step(*best, costs, site) < 2 * ideal);
  const std::vector<double> more(planned_peers_max + 1, 1.0);
  CHECK_FALSE(best_layout(alone(Stages(more.size())), costs, site_of(more)));
}

namespace {

/// The largest search that a ballot can ask for: peers in two rooms with slow links between them,
/// and groups of any size.
std::pair<LayoutCosts, SplitSite> largest_case(bool are_alike) {
  LayoutCosts costs = costs_of({0.08, 0.09, 0.1, 0.12, 0.13, 0.14, 0.16, 0.18}, planned_peers_max);
  costs.micro_batches = planned_micro_batches_max;
  std::vector<double> speeds;
  for (std::size_t peer = 0; peer < planned_peers_max; ++peer) {
    speeds.push_back(are_alike ? 100 : 100 / (1 + 0.37 * static_cast<double>(peer)));
  }
  SplitSite site = site_of(speeds, {.latency_s = 1e-4, .bytes_per_s = 1e8});
  for (std::size_t a = 0; a < speeds.size(); ++a) {
    for (std::size_t b = 0; b < speeds.size(); ++b) {
      if (a % 2 != b % 2) site.links[a][b] = {.latency_s = 3e-3, .bytes_per_s = 1e7};
    }
  }
  return {std::move(costs), std::move(site)};
}

}  // namespace

TEST_CASE("the largest search of a ballot takes no more steps than peers can wait for", "[unit]") {
  const auto [costs, site] = largest_case(GENERATE(false, true));
  SplitQuestion question{.layers = costs.stages,
                         .site = site,
                         .samples = costs.micro_batches,
                         .micro_batches = {costs.micro_batches}};
  PlanSearch search(question);
  SearchBudget unlimited;
  for (std::size_t group = 1; group <= costs.group; ++group) {
    search.best_by_stages({.all_peers = true, .group = group, .stages_max = planned_stages_max},
                          unlimited);
  }
  // All candidates are found, and there are steps left to predict the best of them.
  CHECK(unlimited.taken() > layout_steps_max / 100);
  CHECK(unlimited.taken() < layout_steps_max * 6 / 10);
  SearchBudget budget(layout_steps_max);
  CHECK(best_layout(alone(Stages(planned_peers_max)), costs, site, {}, budget));
  CHECK(budget.taken() > layout_steps_max / 2);
  CHECK(budget.taken() <= layout_steps_max);
}

TEST_CASE("a search whose steps are used up gives a whole layout or none", "[unit]") {
  const auto [costs, site] = largest_case(false);
  const Pins pins{std::nullopt, 3, std::nullopt, std::nullopt,
                  std::nullopt, 0, std::nullopt, std::nullopt};
  std::size_t found = 0;
  for (std::uint64_t steps = 0; steps < layout_steps_max / 2; steps += layout_steps_max / 40) {
    SearchBudget budget(steps);
    const auto best = best_layout(alone(Stages(planned_peers_max)), costs, site, pins, budget);
    CHECK(budget.taken() <= steps);
    if (!best) continue;
    ++found;
    CHECK(keeps_pins(best->stages, pins));
    std::vector<std::size_t> carriers(costs.stages.size(), 0);
    for (const auto& stages : best->stages) {
      CHECK_FALSE(stages.empty());
      for (const std::uint32_t stage : stages) ++carriers[stage];
    }
    CHECK(std::ranges::count(carriers, 0U) == 0);
    for (const auto& members : best->groups.members) CHECK(members.size() <= costs.group);
    CHECK(std::isfinite(predicted_step(*best, costs, site)));
  }
  CHECK(found > 5);
  SearchBudget none(0);
  CHECK_FALSE(best_layout(alone(Stages(planned_peers_max)), costs, site, pins, none));
}

TEST_CASE("every generation that a planner makes from plans is sound to the others", "[unit]") {
  Rng rng(13);
  for (int draw = 0; draw < 60; ++draw) {
    const std::size_t peers = 1 + rng.below(6);
    const LayoutCosts costs = costs_of({0.4, 0.3, 0.2, 0.1}, 1 + rng.below(4));
    const StagePlanner planner(seconds_of(costs), 80, planning(costs));
    const std::vector<double> speeds = drawn_speeds(rng, peers);
    const auto begin = plan_stages(newcomers(speeds), seconds_of(costs), planning(costs));
    REQUIRE(begin);
    Answers answers;
    for (const StageOffer& offer : offers_after(begin->assignments, speeds)) {
      Answer answer{.version = {7, 70, 7},
                    .speed = static_cast<float>(offer.speed),
                    .holdings = planning(costs).parts.packed(offer.holdings)};
      for (std::uint64_t other = 1; other <= peers; ++other) {
        if (PeerId{other} == offer.peer) continue;
        answer.links.push_back({PeerId{other}, 1e-3F, 1e6F});
      }
      CHECK(planner.problem(answer) == "");
      answers.emplace(offer.peer, std::move(answer));
    }
    const auto generation = planner.plan(answers, nullptr);
    REQUIRE(generation);
    CHECK(planner.problem(*generation) == "");
    CHECK(generation == planner.plan(answers, nullptr));
    // All members predict the same step, up to the rounding of shares and of their own speeds.
    std::vector<double> predicted;
    for (const auto& [peer, answer] : answers) {
      predicted.push_back(planner.predicted_s(*generation, peer, answer.speed, answer.links));
      CHECK(predicted.back() == Approx(predicted.front()).epsilon(0.02));
    }
    CHECK(predicted.front() > 0);
    CHECK(planner.predicted_s(*generation, PeerId{1}, 0, {}) == 0);
  }
}

TEST_CASE("a generation with a group of too many peers is refused", "[unit]") {
  const LayoutCosts costs = costs_of({1}, 2);
  const StagePlanner planner({1}, 80, planning(costs));
  Generation generation{.order = {PeerId{1}, PeerId{2}, PeerId{3}}, .shares = {1000, 1000, 1000}};
  for (std::uint64_t id = 1; id <= 3; ++id) {
    generation.assignments.push_back({0, PeerId{id}, PeerId{id}});
    for (auto slice = static_cast<std::uint32_t>(8 * (id - 1)); slice < 8 * id; ++slice) {
      generation.assignments.push_back({1 + slice, PeerId{id}, PeerId{id}});
    }
  }
  CHECK(planner.problem(generation) == "it makes a group of too many peers");
}

TEST_CASE("the generation of a hundred peers in groups of two fits into a message", "[unit]") {
  const StagePlanner planner({1}, 800,
                             {.parts = StageParts({24}), .group = {.least = 1, .most = 2}});
  Answers answers;
  for (std::uint64_t id = 1; id <= 100; ++id) {
    answers[PeerId{id}] = {.speed = 1, .holdings = {{0, false, {}}}};
  }
  const auto generation = planner.plan(answers, nullptr);
  REQUIRE(generation);
  CHECK(generation->assignments.size() == 200);
  CHECK(planner.problem(*generation).empty());
}

}  // namespace gv
