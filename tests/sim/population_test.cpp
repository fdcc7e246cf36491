// Populations in the virtual world: selection, lineage, and copies that fail.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "peer/modes/gossip.hpp"
#include "peer/node/hyperparameters.hpp"
#include "peer/node/whole_replica.hpp"
#include "sim/virtual/population_tally.hpp"
#include "sim/virtual/simulator.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "tests/facts.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t seed = 11;

/// Peers are validated every 25 steps, which take half a second. They learn each other's results
/// before the next validation.
Simulator::Options population_world(std::size_t peers, std::size_t dimension = 16) {
  Simulator::Options options = small_world(peers, seed, dimension);
  options.node.membership.probe_period = 200ms;
  options.node.membership.probe_timeout = 100ms;
  options.node.gossip.alpha = 0;
  options.node.gossip.population.every_steps = 25;
  options.scenario.noise = 0.05;
  return options;
}

std::unique_ptr<Replica> member(std::unique_ptr<StandIn> learner, double rate, std::size_t peer) {
  learner->join_population(rate);
  return std::make_unique<WholeReplica>(std::move(learner), peer);
}

/// All learners have the same optimum. A learning rate of 0.002 is a hundred times too small.
MakeWorkload learners(const Simulator::Options& options, std::vector<double> rates) {
  return [scenario = options.scenario, rates](std::size_t peer) {
    const QuadraticSpec spec{
        .dimension = scenario.dimension, .noise = scenario.noise, .disagreement = 0, .seed = seed};
    return member(quadratic_learner(spec, peer), rates[peer % rates.size()], peer);
  };
}

struct Copy {
  PeerNumber to = 0;
  Exploited what;
};

/// Records all copies that peers make.
class Copies : public Watcher {
 public:
  void on_effects(const Simulator&, PeerNumber peer, const NodeEffects& effects) override {
    for (const Fact& fact : effects.facts) {
      if (const auto* what = std::get_if<Exploited>(&fact)) all.push_back({peer, *what});
    }
  }
  std::vector<Copy> all;
};

const std::vector<double> mixed_rates = {0.002, 0.2, 0.004, 0.1, 0.003, 0.05, 0.01, 0.02};

}  // namespace

TEST_CASE("those whose learning rate is too small come as far as the others by copying", "[sim]") {
  Simulator::Options options = population_world(8);
  Simulator together(options, learners(options, mixed_rates));
  PopulationTally population;
  together.watch(population);
  together.run(Time(60s));
  // A peer that trains alone with the smallest learning rate.
  Simulator::Options lone_options = population_world(1);
  Simulator alone(lone_options, learners(lone_options, {mixed_rates.front()}));
  PopulationTally lone;
  alone.watch(lone);
  alone.run(Time(60s));
  REQUIRE(population.trials().size() == 8);
  for (const auto& [peer, trial] : population.trials()) {
    CHECK(trial.validation_loss < 0.2F * lone.trials().at(0).validation_loss);
  }
}

TEST_CASE("a copy goes on with its source's hyper-parameters times 0.8 or 1.2", "[sim]") {
  Simulator::Options options = population_world(8);
  Simulator world(options, learners(options, mixed_rates));
  Copies copies;
  world.watch(copies);
  world.run(Time(60s));
  REQUIRE(copies.all.size() > 3);
  for (const auto& [to, what] : copies.all) {
    const double factor = what.learning_rate / what.source_learning_rate;
    CHECK(std::min(std::abs(factor - 0.8), std::abs(factor - 1.2)) < 1e-5);
    CHECK(what.loss_after < what.loss_before);
  }
}

TEST_CASE("lineages are a forest", "[sim]") {
  Simulator::Options options = population_world(8);
  Simulator world(options, learners(options, mixed_rates));
  PopulationTally tally;
  Copies copies;
  world.watch(tally);
  world.watch(copies);
  world.run(Time(60s));
  REQUIRE(tally.copies() == copies.all.size());
  REQUIRE(tally.copies() > 0);
  for (const auto& [to, what] : copies.all) CHECK(what.peer != id_of(to));
  const std::vector<Strain>& lineage = tally.lineage();
  std::size_t roots = 0;
  for (std::size_t i = 0; i < lineage.size(); ++i) {
    // Each strain has one parent, which began earlier, so there is no cycle.
    CHECK(lineage[i].parent <= i);
    roots += lineage[i].parent == i ? 1 : 0;
  }
  CHECK(roots == 8);
}

TEST_CASE("a peer of a population copies a better one whose model is much longer", "[sim]") {
  Simulator::Options options = population_world(2, 1024);
  REQUIRE(options.node.gossip.exchange.norm_cap == 10);
  // The optimum has a norm of 32. The slow peer's model begins at zero and hardly moves.
  Simulator world(options, learners(options, {1e-6, 0.2}));
  PopulationTally tally;
  world.watch(tally);
  world.run(Time(20s));
  CHECK(tally.copies(0) > 0);
}

TEST_CASE("a population of equals copies nothing", "[sim]") {
  Simulator::Options options = population_world(6);
  Simulator world(options, [&](std::size_t peer) {
    return member(idle_learner(options.scenario.dimension, seed, peer), 0.1, peer);
  });
  PopulationTally tally;
  world.watch(tally);
  world.run(Time(30s));
  CHECK(tally.trials().size() == 6);
  CHECK(tally.copies() == 0);
}

TEST_CASE("one seed gives one lineage", "[sim]") {
  const auto run = [] {
    Simulator::Options options = population_world(8);
    options.node.gossip.alpha = 0.5;
    Simulator world(options, learners(options, mixed_rates));
    PopulationTally tally;
    world.watch(tally);
    world.run(Time(30s));
    std::vector<std::pair<PeerNumber, std::uint64_t>> began;
    for (const Strain& strain : tally.lineage()) began.emplace_back(strain.peer, strain.step);
    return std::pair(world.trace_hash(), began);
  };
  const auto first = run();
  REQUIRE(first.second.size() > 8);
  CHECK(run() == first);
}

TEST_CASE("a source that dies in the middle of a copy leaves the copier as it was", "[sim]") {
  // A model has four blocks, whose transfer takes a second.
  Simulator::Options options = population_world(6, 200000);
  options.scenario.noise = 0;
  options.scenario.step = 100ms;
  options.node.gossip.population.every_steps = 5;
  options.scenario.links = {every_link({.latency = 1ms, .bandwidth = 6.4})};
  const MakeWorkload make = learners(options, {0.002, 0.2, 0.01, 0.02, 0.05, 0.1});
  std::optional<Time> asked;
  PeerNumber copier = 0;
  PeerNumber source = 0;
  FactWatch first_copy([&](const Simulator& world, PeerNumber peer, const Fact& fact) {
    const auto* fetch = std::get_if<FetchAsked>(&fact);
    if (fetch == nullptr || asked) return;
    asked = world.now();
    copier = peer;
    source = number_of(fetch->peer);
  });
  Simulator before(options, make);
  before.watch(first_copy);
  while (!asked && before.step(Time(60s))) {
  }
  REQUIRE(asked);

  options.scenario.faults = {
      fault(FaultKind::kill, asked->time_since_epoch() + 300ms, just(source))};
  Simulator world(options, make);
  bool lost = false;
  bool failed = false;
  bool copied = false;
  FactWatch watch([&](const Simulator&, PeerNumber peer, const Fact& fact) {
    if (peer != copier) return;
    lost = lost ||
           (std::holds_alternative<FetchSourceLost>(fact) && peer_of_fact(fact) == id_of(source));
    failed = failed || std::holds_alternative<FetchFailed>(fact);
    copied =
        copied || (std::holds_alternative<Exploited>(fact) && peer_of_fact(fact) == id_of(source));
  });
  PopulationTally tally;
  world.watch(watch);
  world.watch(tally);
  world.run(*asked);
  const Trial trial = tally.trials().at(copier);
  const std::uint64_t step = world.peer(copier).work->step();
  while (!failed && world.step(Time(120s))) {
  }
  CHECK(lost);
  REQUIRE(failed);
  CHECK_FALSE(copied);
  // Meanwhile the peer continued to train its own model.
  CHECK(tally.trials().at(copier).learning_rate == trial.learning_rate);
  CHECK(world.peer(copier).work->step() > step);
}

TEST_CASE("a newcomer takes over the hyper-parameters of whom it has its model from", "[sim]") {
  Simulator::Options options = population_world(4);
  // All others train with one learning rate. Their models are equally good, so no peer varies it
  // before the newcomer comes.
  options.scenario.faults = {fault(FaultKind::join, 20s, just(3))};
  Simulator world(options, [&](std::size_t peer) {
    return member(idle_learner(options.scenario.dimension, seed, peer), peer == 3 ? 0.5 : 0.125,
                  peer);
  });
  PopulationTally tally;
  world.watch(tally);
  world.run(Time(30s));
  REQUIRE(tally.trials().contains(3));
  CHECK(world.peer(3).node->as<GossipMode>()->counts().models_fetched == 1);
  CHECK(tally.trials().at(3).learning_rate == 0.125F);
}

TEST_CASE("who comes back from a checkpoint has the hyper-parameters it had", "[sim]") {
  Simulator::Options options = population_world(2);
  options.node.course.save_every_steps = 10;
  // The peer is down too briefly to have to download a model.
  options.scenario.faults = {fault(FaultKind::kill, 20s, just(1), 200ms)};
  std::size_t made = 0;
  Simulator world(options, [&](std::size_t peer) {
    // The config has changed while the peer was down.
    const double rate = peer == 1 && ++made > 1 ? 0.5 : 0.125;
    return member(idle_learner(options.scenario.dimension, seed, peer), rate, peer);
  });
  PopulationTally tally;
  world.watch(tally);
  world.run(Time(30s));
  REQUIRE(made == 2);
  CHECK(world.peer(1).node->as<GossipMode>()->counts().models_fetched == 0);
  CHECK(tally.trials().at(1).learning_rate == 0.125F);
}

}  // namespace gv
