// A swarm that switches to another mode while it runs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/fingerprint.hpp"
#include "consensus/generation/equivocation.hpp"
#include "peer/config/switched_mode.hpp"
#include "peer/modes/generations.hpp"
#include "peer/modes/switchable_mode.hpp"
#include "sim/virtual/finale_invariants.hpp"
#include "sim/virtual/invariants.hpp"
#include "sim/virtual/swarm.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t peers = 5;

FaultRule switched(Duration at, std::size_t peer, const std::string& mode) {
  FaultRule rule = fault(FaultKind::switch_to, at, just(peer));
  rule.algorithm = mode;
  return rule;
}

DrawnWorld world_of(ModeKind mode, std::vector<FaultRule> fault_events) {
  DrawnWorld world;
  world.seed = 7;
  world.config.run.mode = mode;
  world.config.gossip.period_steps = 10;
  world.scenario.peers = peers;
  world.scenario.work = WorkKind::quadratic;
  world.scenario.dimension = 16;
  world.scenario.step = 20ms;
  world.scenario.until = 40s;
  world.scenario.faults = std::move(fault_events);
  return world;
}

/// Records where each peer began each mode, and with which model.
class Switches : public Watcher {
 public:
  void on_job(const Simulator& world, PeerNumber peer, const Job& job) override {
    const auto* brings = first_of<task::ComputeGradient>(job.tasks);
    if (brings == nullptr || !brings->of_model) return;
    const auto model = world.peer(peer).work->parameters();
    brought[peer].assign(model.begin(), model.end());
  }
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override {
    for (const Fact& fact : effects.facts) {
      if (const auto* refusal = std::get_if<SwitchRefused>(&fact)) refused.insert(refusal->why);
      const auto* began = std::get_if<AlgorithmSwitched>(&fact);
      if (began == nullptr) continue;
      steps[began->settings_revision].insert(began->step);
      by[began->settings_revision].insert(peer);
      const auto model = world.peer(peer).work->parameters();
      models[began->settings_revision].insert(fingerprint(model));
      if (apart < 0) check_mean(model);
    }
  }
  std::map<std::uint64_t, std::set<std::uint64_t>> steps;  ///< First steps of a mode, by revision.
  std::map<std::uint64_t, std::set<PeerNumber>> by;
  std::map<std::uint64_t, std::set<std::uint64_t>> models;
  std::set<std::string> refused;
  std::map<PeerNumber, std::vector<float>> brought;  ///< The model that each peer added to a mean.
  double apart = -1;                                 ///< Largest error of the first switch's mean.

 private:
  void check_mean(std::span<const float> model) {
    apart = 0;
    for (std::size_t i = 0; i < model.size(); ++i) {
      double mean = 0;
      for (const auto& [peer, values] : brought) mean += values[i] / double(brought.size());
      apart = std::max(apart, std::abs(mean - model[i]));
    }
  }
};

/// Runs the world with all checkers. Whatever happens, all peers must end in one mode.
Switches run(const DrawnWorld& world) {
  Switches switches;
  const Verdict verdict = run_world(world, &switches);
  INFO(text_of(verdict));
  CHECK_FALSE(verdict.violation);
  return switches;
}

constexpr std::uint64_t revision(std::uint64_t number) { return number << algorithm_bits; }

constexpr PeerNumber liar = 4;

/// Two different decisions of the ballot with this number, both signed by the liar.
Equivocation proof_about(const Simulator& world, std::uint64_t number) {
  const StandInSigner signer = world.signer(id_of(liar));
  const auto decision = [&](std::uint64_t step) {
    Generation generation{.id = {.number = number, .proposer = id_of(liar)},
                          .version = {.step = step}};
    return decision_in(signed_install(std::move(generation), signer), signer);
  };
  return {decision(1), decision(2)};
}

bool convicts(const Simulator& world, PeerNumber peer) {
  const Generations* generations = world.peer(peer).node->generations();
  return generations != nullptr && generations->agreement().is_convicted(id_of(liar));
}

/// Ballot numbers from the first mode, a later mode, a mean and a council.
std::vector<std::uint64_t> numbers_of_all_parts() {
  return {7, ballots_of_mode({2, "gossip"}).first + 7, first_ballot_of_meetings + 7,
          first_ballot_of_council + 7};
}

}  // namespace

TEST_CASE("a swarm goes from gossip through all-reduce and mixing back to gossip",
          "[sim][switch]") {
  const Switches all =
      run(world_of(ModeKind::gossip, {switched(5s, 3, "allreduce"), switched(15s, 0, "mixing"),
                                      switched(25s, 1, "gossip")}));
  for (std::uint64_t number = 1; number <= 3; ++number) {
    REQUIRE(all.by.contains(revision(number)));
    CHECK(all.by.at(revision(number)).size() == peers);
    CHECK(all.steps.at(revision(number)).size() == 1);
    CHECK(all.models.at(revision(number)).size() == 1);
  }
  // A step takes at least 20 ms.
  CHECK(*all.steps.at(revision(1)).begin() > 100);
  CHECK(*all.steps.at(revision(2)).begin() > *all.steps.at(revision(1)).begin() + 100);
  CHECK(*all.steps.at(revision(3)).begin() > *all.steps.at(revision(2)).begin() + 100);
}

TEST_CASE("what all have learnt is in the mean with which a new mode begins", "[sim][switch]") {
  const Switches all = run(world_of(ModeKind::gossip, {switched(5s, 2, "allreduce")}));
  CHECK(all.brought.size() == peers);
  CHECK(all.apart >= 0);
  CHECK(all.apart < 1e-6);
}

TEST_CASE("every mode switches to every other", "[sim][switch]") {
  for (const ModeKind from : {ModeKind::gossip, ModeKind::allreduce, ModeKind::mixing}) {
    for (const ModeKind to : {ModeKind::gossip, ModeKind::allreduce, ModeKind::mixing}) {
      if (from == to) continue;
      INFO(to_string(from) << " to " << to_string(to));
      DrawnWorld world = world_of(from, {switched(5s, 1, std::string(to_string(to)))});
      world.scenario.until = 15s;
      const Switches all = run(world);
      REQUIRE(all.by.size() == 1);
      CHECK(all.by.at(revision(1)).size() == peers);
      CHECK(all.models.at(revision(1)).size() == 1);
    }
  }
}

TEST_CASE("a death at the switch leaves the others in one mode", "[sim][switch]") {
  for (int moment = 0; moment < 4; ++moment) {
    INFO("moment " << moment);
    const Duration death = 5s + 30ms * moment;
    const std::size_t victim = moment % 2 == 0 ? 2 : 0;
    DrawnWorld world =
        world_of(ModeKind::gossip,
                 {switched(5s, 2, "allreduce"), fault(FaultKind::kill, death, just(victim), 5s)});
    world.scenario.until = 15s;
    const Switches all = run(world);
    // Either no peer has learned of the switch, or all follow it, including the peer that returns.
    CHECK((all.by.empty() || all.by.at(revision(1)).size() == peers));
  }
}

TEST_CASE("who was away or comes later joins the mode that the others have switched to",
          "[sim][switch]") {
  FaultRule apart = fault(FaultKind::partition, 3s, {.ranges = {{3, 4}}}, 10s);
  for (const char* mode : {"allreduce", "mixing"}) {
    INFO(mode);
    const Switches all = run(world_of(
        ModeKind::gossip, {apart, switched(6s, 0, mode), fault(FaultKind::kill, 5s, just(1), 4s)}));
    CHECK(all.by.at(revision(1)).size() == peers);
    const Switches joined = run(
        world_of(ModeKind::gossip, {switched(5s, 0, mode), fault(FaultKind::join, 12s, just(4))}));
    CHECK(joined.by.at(revision(1)).size() == peers);
  }
}

TEST_CASE("of two switches that are ordered at once, all follow the same one", "[sim][switch]") {
  const Switches all =
      run(world_of(ModeKind::gossip, {switched(5s, 1, "mixing"), switched(5s, 4, "allreduce")}));
  CHECK(all.by.rbegin()->second.size() == peers);
}

TEST_CASE("a hostile peer that counts switches up to the last leaves every mode usable",
          "[sim][switch]") {
  for (const ModeKind mode : {ModeKind::allreduce, ModeKind::mixing, ModeKind::gossip}) {
    INFO(to_string(mode));
    Simulator::Options options = simulator_options(world_of(ModeKind::gossip, {}));
    options.node.revision = {.number = switches_max << algorithm_bits,
                             .settings = settings_of(to_string(mode))};
    // Each peer has a replica for the mode, like a peer that resumes from its folder.
    Simulator simulator(options, workloads(world_of(mode, {})));
    Switches switches;
    simulator.watch(switches);
    simulator.run(Time(20s));
    CHECK(switches.by.empty());
    for (PeerNumber number = 0; number < peers; ++number) {
      const Node& node = *simulator.peer(number).node;
      CHECK(node.switchable().kind() == mode);
      CHECK(node.mode().revision()->number == options.node.revision.number);
      CHECK(node.mode().step() > 100);
    }
  }
}

TEST_CASE("a proof about a ballot of any mode, mean or council excludes its signer at once",
          "[sim][switch]") {
  for (const ModeKind mode : {ModeKind::allreduce, ModeKind::mixing}) {
    for (const std::uint64_t number : numbers_of_all_parts()) {
      INFO(to_string(mode) << ", ballot " << number);
      Simulator simulator(simulator_options(world_of(mode, {})), workloads(world_of(mode, {})));
      std::map<PeerNumber, int> told;
      FactWatch facts([&](const Simulator&, PeerNumber peer, const Fact& fact) {
        told[peer] += std::holds_alternative<EquivocationProved>(fact);
      });
      simulator.watch(facts);
      simulator.run(Time(2s));
      simulator.send_from_outside(id_of(1), 0, proof_about(simulator, number));
      simulator.run(Time(4s));
      for (PeerNumber peer = 0; peer < liar; ++peer) {
        CHECK(convicts(simulator, peer));
        CHECK(told[peer] == 1);
        const Generations& generations = *simulator.peer(peer).node->generations();
        REQUIRE(generations.current() != nullptr);
        CHECK_FALSE(generations.current()->contains(id_of(liar)));
      }
    }
  }
}

TEST_CASE("a proof that comes in gossip, or while a switch is made, holds in the next mode",
          "[sim][switch]") {
  for (const ModeKind from : {ModeKind::gossip, ModeKind::allreduce, ModeKind::mixing}) {
    const ModeKind to = from == ModeKind::mixing ? ModeKind::allreduce : ModeKind::mixing;
    for (const std::uint64_t number : numbers_of_all_parts()) {
      // Gossip has no ballots of its own.
      if (from == ModeKind::gossip && ballots_of_mode({}).contains(number)) continue;
      INFO(to_string(from) << " to " << to_string(to) << ", ballot " << number);
      const DrawnWorld world = world_of(from, {switched(5s, 0, std::string(to_string(to)))});
      Simulator simulator(simulator_options(world), workloads(world));
      simulator.run(Time(4s));
      const SwitchableMode& mode = simulator.peer(0).node->switchable();
      while (!mode.is_switching()) REQUIRE(simulator.step(Time(10s)));
      // Only peer 0 receives the proof, and passes it on.
      simulator.send_from_outside(id_of(1), 0, proof_about(simulator, number));
      bool is_held = true;
      while (mode.is_switching()) {
        is_held = is_held && (from == ModeKind::gossip || convicts(simulator, 0));
        REQUIRE(simulator.step(Time(30s)));
      }
      CHECK(is_held);
      simulator.run(simulator.now() + 1s);
      for (PeerNumber peer = 0; peer < liar; ++peer) CHECK(convicts(simulator, peer));
    }
  }
}

TEST_CASE("a false proof about a ballot of any part counts once and excludes nobody",
          "[sim][switch]") {
  for (const std::uint64_t number : numbers_of_all_parts()) {
    INFO("ballot " << number);
    const DrawnWorld world = world_of(ModeKind::allreduce, {});
    Simulator simulator(simulator_options(world), workloads(world));
    int unsound = 0;
    FactWatch facts([&](const Simulator&, PeerNumber, const Fact& fact) {
      unsound += std::holds_alternative<UnsoundMessage>(fact);
    });
    simulator.watch(facts);
    simulator.run(Time(2s));
    Equivocation claim = proof_about(simulator, number);
    claim.other.signature.front() ^= 1;
    simulator.send_from_outside(id_of(1), 0, claim);
    simulator.run(Time(4s));
    CHECK(unsound == 1);
    CHECK_FALSE(convicts(simulator, 0));
  }
}

TEST_CASE("a budget of all peers goes on through a switch and ends once", "[sim][switch]") {
  DrawnWorld world =
      world_of(ModeKind::gossip, {switched(4s, 1, "allreduce"), switched(8s, 2, "gossip")});
  world.config.run.budget = BudgetKind::swarm;
  world.config.run.steps = 800;
  Simulator simulator(simulator_options(world), workloads(world));
  FinaleInvariants finale;
  simulator.watch(finale);
  std::uint64_t trained = 0;
  struct Trained : Watcher {
    explicit Trained(std::uint64_t& count) : count_(count) {}
    void on_job_done(const Simulator&, PeerNumber, const JobDone& done) override {
      if (first_of<task::TakeSteps>(done.job.tasks) != nullptr) count_ += done.steps_run;
      const auto* update = first_of<task::ApplyUpdate>(done.job.tasks);
      if (update != nullptr && !update->becomes_model_at) ++count_;
    }
    std::uint64_t& count_;
  } watch(trained);
  simulator.watch(watch);
  simulator.run(Time(5min));
  CHECK_FALSE(finale.violation());
  CHECK(simulator.all_ended());
  std::set<std::uint64_t> ends;
  for (PeerNumber number = 0; number < peers; ++number) {
    ends.insert(fingerprint(simulator.peer(number).work->parameters()));
  }
  CHECK(ends.size() == 1);
  // It takes a second or two until a peer learns how many samples others have trained.
  const double budget = 800.0 * peers;
  CHECK(double(trained) >= budget * 0.97);
  CHECK(double(trained) < budget * 1.15);
}

TEST_CASE("a switch that is ordered while the last steps of the run are made is refused",
          "[sim][switch]") {
  DrawnWorld world = world_of(ModeKind::gossip, {switched(21500ms, 0, "mixing")});
  world.config.run.budget = BudgetKind::swarm;
  world.config.run.steps = 100000;
  world.config.run.wall = 20s;
  world.config.run.linger = 5s;
  // The jobs end one after another, long after the time is over and the switch was ordered.
  world.scenario.step = 6s;
  world.scenario.step_jitter = 0.05;
  Simulator simulator(simulator_options(world), workloads(world));
  Switches switches;
  simulator.watch(switches);
  simulator.run(Time(4min));
  CHECK(switches.refused.size() == 1);
  CHECK(switches.by.empty());
  CHECK(simulator.all_ended());
}

TEST_CASE("a peer that enters a new mode late keeps to the budget if the others are gone",
          "[sim][switch]") {
  FaultRule cut = fault(FaultKind::partition, 10s, just(1), 20s);
  DrawnWorld world = world_of(ModeKind::gossip, {cut, switched(20300ms, 0, "allreduce"),
                                                 fault(FaultKind::kill, 31050ms, just(0))});
  world.config.run.budget = BudgetKind::swarm;
  world.config.run.steps = 2000;
  world.config.run.linger = 5s;
  world.scenario.peers = 2;
  world.scenario.step = 50ms;
  struct LastStep : Watcher {
    void on_job_done(const Simulator&, PeerNumber peer, const JobDone& done) override {
      if (peer == 1) last = done.step;
    }
    std::uint64_t last = 0;
  } step;
  Simulator simulator(simulator_options(world), workloads(world));
  Switches switches;
  simulator.watch(switches);
  simulator.watch(step);
  simulator.run(Time(6min));
  REQUIRE(switches.by[revision(1)].contains(1));
  CHECK(simulator.peer(1).state == PeerState::ended);
  // The budget is 4,000 steps. Peer 1 had made about 600 of them before the switch.
  CHECK(step.last < 3700);
}

TEST_CASE("a switch that cannot be made is refused before anything changes", "[sim][switch]") {
  DrawnWorld leased = world_of(ModeKind::gossip, {switched(5s, 1, "allreduce")});
  leased.config.run.budget = BudgetKind::swarm;
  leased.config.run.steps = 100000;
  leased.config.data.partition.kind = PartitionKind::leased;
  leased.config.data.chunk_samples = leased.config.train.batch;
  DrawnWorld local = world_of(ModeKind::allreduce, {switched(5s, 1, "gossip")});
  local.config.allreduce.local.period = 4;
  for (const DrawnWorld& world : {leased, local}) {
    Simulator simulator(simulator_options(world), workloads(world));
    Switches switches;
    simulator.watch(switches);
    simulator.run(Time(10s));
    CHECK(switches.refused.size() == 1);
    CHECK(switches.by.empty());
    for (PeerNumber number = 0; number < peers; ++number) {
      CHECK(simulator.peer(number).node->switchable().kind() == world.config.run.mode);
    }
  }
}

}  // namespace gv
