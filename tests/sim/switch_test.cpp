// A swarm that switches to another mixing algorithm while it runs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "peer/config/algorithms.hpp"
#include "peer/config/switched_mixing.hpp"
#include "peer/modes/mixing.hpp"
#include "sim/virtual/invariants.hpp"
#include "sim/virtual/simulator.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t peers = 8;
constexpr std::uint64_t budget = 400;

Config running() {
  Config config;
  config.run.mode = ModeKind::mixing;
  config.run.peers = peers;
  config.train.optimizer.kind = OptimizerKind::sgd;
  return config;
}

FaultRule switched(Duration at, std::size_t peer, const std::string& algorithm) {
  FaultRule rule = fault(FaultKind::switch_to, at, just(peer));
  rule.algorithm = algorithm;
  return rule;
}

/// The result of a run.
struct Outcome {
  /// The steps at which peers began to use a settings revision, keyed by revision.
  std::map<std::uint64_t, std::set<std::uint64_t>> began;
  std::map<std::uint64_t, std::set<PeerNumber>> by;
  std::set<std::string> refused;
  std::set<std::string> last;  ///< The peers' settings at the end.
  std::size_t whole = 0;       ///< Peers that made all their steps.
  std::uint64_t unread = 0;    ///< Messages that a peer could not read.
};

/// Records the settings of each peer.
class Rulings : public Watcher {
 public:
  void after(const Simulator& world, PeerNumber number) override {
    const auto& node = world.peer(number).node;
    if (!node || node->as<MixingMode>() == nullptr) return;
    last[number] = node->as<MixingMode>()->options().revision.settings;
    unread = std::max(unread, node->as<MixingMode>()->counts().messages_refused);
  }
  std::map<PeerNumber, std::string> last;
  std::uint64_t unread = 0;
};

Outcome run_of(const std::vector<FaultRule>& fault_events, ModeKind mode = ModeKind::mixing) {
  Simulator::Options options = small_world(peers, 5);
  options.node.mode = mode;
  options.node.course.wait_for_peers = peers;
  options.node.course.steps = budget;
  options.node.mixing.state_elements = options.scenario.dimension;
  options.node.mixing.read_revision = [](std::string_view settings) {
    return switched_mixing(running(), settings);
  };
  options.scenario.faults = fault_events;
  const QuadraticSpec spec{
      .dimension = options.scenario.dimension, .learning_rate = 0.005, .noise = 0};
  Simulator world(options, [&](std::size_t peer) {
    auto work = quadratic_workload(spec, peer);
    if (mode == ModeKind::mixing) work->mix_by(MixRule(), options.node.course.run_seed);
    return work;
  });
  Outcome outcome;
  FactWatch watch([&](const Simulator&, PeerNumber peer, const Fact& fact) {
    if (const auto* refused = std::get_if<SwitchRefused>(&fact)) {
      outcome.refused.insert(refused->why);
    } else if (const auto* switched = std::get_if<AlgorithmSwitched>(&fact)) {
      outcome.began[switched->settings_revision].insert(switched->step);
      outcome.by[switched->settings_revision].insert(peer);
    }
  });
  Rulings revisions;
  Invariants invariants;
  world.watch(revisions);
  world.watch(watch);
  world.watch(invariants);
  world.run(Time(5min));
  CHECK_FALSE(invariants.violation());
  for (PeerNumber number = 0; number < world.size(); ++number) {
    const VirtualPeer& peer = world.peer(number);
    outcome.whole += peer.work && peer.work->step() >= budget;
  }
  for (const auto& [number, settings] : revisions.last) outcome.last.insert(settings);
  outcome.unread = revisions.unread;
  return outcome;
}

/// Compares the samples that each peer has trained with those that it counts.
class Counts : public Watcher {
 public:
  void on_job_done(const Simulator& world, PeerNumber number, const JobDone& done) override {
    if (first_of<task::TakeSteps>(done.job.tasks) == nullptr) return;
    made[number] += done.steps_run * world.options().node.mixing.batch;
  }
  void after(const Simulator& world, PeerNumber number) override {
    const auto& node = world.peer(number).node;
    if (node && node->mode().swarm_work() != nullptr) {
      counted[number] = node->mode().swarm_work()->own().samples;
    }
  }
  std::map<PeerNumber, std::uint64_t> made;
  std::map<PeerNumber, std::uint64_t> counted;
};

}  // namespace

TEST_CASE("steps of a round that others had counted for all are not counted again",
          "[sim][mixing]") {
  Simulator::Options options = small_world(4, 5);
  options.node.mode = ModeKind::mixing;
  options.node.course.wait_for_peers = 4;
  options.node.mixing.batch = 8;
  options.node.mixing.period = 20;
  // Messages are sent before the steps, so a round ends although a slow peer still makes its steps.
  options.node.mixing.rule.order = MixOrder::combine_then_adapt;
  options.node.mixing.state_elements = options.scenario.dimension;
  options.node.mixing.mean.state_elements = options.scenario.dimension;
  options.node.mixing.read_revision = [](std::string_view settings) {
    return switched_mixing(running(), settings);
  };
  options.node.course.work = {.budget = 4 * 8 * 200, .batch = 8};
  options.scenario.speeds.push_back({.peers = just(3), .factor = 0.25});
  options.scenario.faults = {switched(1s, 0, "async")};
  const MixRule rule = options.node.mixing.rule;
  Simulator world(options, [&](std::size_t peer) {
    auto work = idle_workload(options.scenario.dimension, options.seed, peer);
    work->mix_by(rule, options.node.course.run_seed);
    return work;
  });
  Counts counts;
  world.watch(counts);
  world.run(Time(5min));
  for (PeerNumber peer = 0; peer < 3; ++peer) {
    CHECK(counts.made[peer] > 8 * 100);
    CHECK(counts.counted[peer] == counts.made[peer]);
  }
  CHECK(counts.counted[3] + 8 * 20 == counts.made[3]);
}

TEST_CASE("one peer is told, and all switch at the same step", "[sim][mixing]") {
  const Outcome outcome = run_of({switched(2s, 5, "choco")});
  REQUIRE(outcome.by.at(1).size() == peers);
  CHECK(outcome.began.at(1).size() == 1);
  CHECK(*outcome.began.at(1).begin() > 0);
  CHECK(outcome.last == std::set<std::string>{revision_settings("choco")});
  CHECK(outcome.whole == peers);
}

TEST_CASE("a swarm goes through every algorithm that works in rounds", "[sim][mixing]") {
  std::vector<FaultRule> fault_events;
  for (const NamedAlgorithm& algorithm : named_algorithms()) {
    const std::string name(algorithm.name);
    if (!switched_mixing(running(), revision_settings(name)).problems.empty()) continue;
    const std::size_t count = fault_events.size();
    fault_events.push_back(switched(1s + 200ms * count, count % peers, name));
  }
  REQUIRE(fault_events.size() > 25);
  const Outcome outcome = run_of(fault_events);
  CHECK(outcome.refused.empty());
  // Rounds may be longer than the time between two commands. Commands that come within one round
  // count as one.
  CHECK(outcome.by.size() > 15);
  for (const auto& [number, steps] : outcome.began) CHECK(steps.size() == 1);
  CHECK(outcome.last == std::set<std::string>{revision_settings(fault_events.back().algorithm)});
  CHECK(outcome.whole == peers);
  CHECK(outcome.unread == 0);
}

TEST_CASE("of two that are told at once, all follow the same one", "[sim][mixing]") {
  const Outcome outcome = run_of({switched(2s, 1, "sgp"), switched(2s, 6, "d2")});
  CHECK(outcome.last.size() == 1);
  CHECK(outcome.whole == peers);
}

TEST_CASE("who was away when all switched goes by it when it comes back", "[sim][mixing]") {
  const Outcome outcome =
      run_of({fault(FaultKind::kill, 1500ms, just(3), 2s), fault(FaultKind::stop, 1s, just(4), 3s),
              switched(2s, 0, "relay_sgd")});
  CHECK(outcome.by.at(1).size() == peers);
  CHECK(outcome.last == std::set<std::string>{revision_settings("relay_sgd")});
  CHECK(outcome.whole == peers);
}

TEST_CASE("a command to one that dies is obeyed by all or by nobody", "[sim][mixing]") {
  for (int moment = 0; moment < 20; ++moment) {
    const Duration death = 2s + 1ms * moment;
    const Outcome outcome =
        run_of({switched(2s, 0, "choco"), fault(FaultKind::kill, death, just(0), 1s)});
    INFO("moment " << moment);
    CHECK(outcome.last.size() == 1);
    CHECK(outcome.whole == peers);
  }
}

TEST_CASE("what cannot be gone by is refused and changes nothing", "[sim][mixing]") {
  const Outcome unknown = run_of({switched(2s, 5, "all_reduce")});
  CHECK(unknown.refused.size() == 1);
  CHECK(unknown.by.empty());
  CHECK(unknown.whole == peers);
  const Outcome gossip = run_of({switched(2s, 5, "choco")}, ModeKind::gossip);
  REQUIRE(gossip.refused.size() == 1);
  CHECK_THAT(*gossip.refused.begin(), Catch::Contains("cannot switch while they run"));
}

}  // namespace gv
