// When a pipeline's time is over, all its peers end at one step, whatever happens to some of them
// just then.
#include "peer/modes/agreed_end.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "base/fingerprint.hpp"
#include "consensus/generation/planner.hpp"
#include "peer/modes/pipeline.hpp"
#include "peer/modes/replica_planner.hpp"
#include "tests/signers.hpp"
#include "tests/sim/pipeline_run.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// The result of a pipeline's peers, and the time of their end.
class StageEndings : public Watcher {
 public:
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override {
    if (first_of<task::Save>(done.job.tasks) == nullptr) return;
    steps[peer] = done.step;
    ran[peer] = world.peer(peer).work->swarm_note().ran;
    for (const std::uint32_t stage : world.peer(peer).node->as<PipelineMode>()->stages()) {
      stages[stage].insert(fingerprint(world.peer(peer).work->stage(stage)));
    }
  }
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override {
    for (const Fact& fact : effects.facts) {
      if (std::holds_alternative<BudgetDone>(fact)) done.insert_or_assign(peer, world.now());
    }
  }

  std::map<PeerNumber, std::uint64_t> steps;
  std::map<PeerNumber, Duration> ran;
  std::map<PeerNumber, Time> done;
  std::map<std::uint32_t, std::set<std::uint64_t>> stages;  ///< Fingerprints of each stage.
};

/// Peers of a pipeline that may train for ten seconds.
Simulator::Options ten_seconds(const PipelineTask& task) {
  Simulator::Options options = task.options();
  options.node.course.linger = 20s;
  options.node.course.work = {.budget = task.steps * task.micro_batches * 4,
                              .batch = 4,
                              .data = 240,
                              .all_data = 240 * task.peers,
                              .weigh_max = 1,
                              .wall = 10s};
  return options;
}

/// Runs the world to its end, which comes at the same step for all `peers`, and returns the result.
StageEndings ended(const PipelineTask& task, const Simulator::Options& options,
                   const std::set<PeerNumber>& peers) {
  Simulator world(options, task.workloads());
  StageEndings endings;
  world.watch(endings);
  run_to_the_end(world, Time(2min));
  for (const PeerNumber peer : peers) {
    INFO("peer-" << peer);
    REQUIRE(endings.done.contains(peer));
    CHECK(endings.steps.at(peer) == endings.steps.at(*peers.begin()));
    CHECK(endings.done.at(peer) > Time(9s));
    CHECK(endings.done.at(peer) < Time(13s));
  }
  CHECK(endings.stages.size() == task.stages);
  for (const auto& [stage, bits] : endings.stages) CHECK(bits.size() == 1);
  return endings;
}

}  // namespace

TEST_CASE("a pipeline whose time is over ends at one step with every stage", "[sim]") {
  const PipelineTask task{.peers = 4, .stages = 3, .micro_batches = 6, .steps = 100'000};
  Simulator::Options options = ten_seconds(task);
  SECTION("without faults") {
    const StageEndings endings = ended(task, options, {0, 1, 2, 3});
    CHECK(endings.steps.at(0) > 20);
    CHECK(endings.steps.at(0) < 10'000);
    // A peer that is resumed continues from this training time.
    CHECK(endings.ran.at(0) > 9s);
  }
  SECTION("also with one that has come late") {
    options.node.course.wait_for_peers = 3;
    options.scenario.faults = {fault(FaultKind::join, 6s, just(3))};
    ended(task, options, {0, 1, 2, 3});
  }
  SECTION("also if one dies just then") {
    const int tenths = GENERATE(range(96, 106));
    INFO("killed at " << tenths / 10.0 << " s");
    options.scenario.faults = {fault(FaultKind::kill, tenths * 100ms, just(0))};
    ended(task, options, {1, 2, 3});
  }
}

TEST_CASE("a pipeline whose budget is used up first ends with it", "[sim]") {
  const PipelineTask task{.peers = 4, .stages = 2, .micro_batches = 6, .steps = 20};
  Simulator::Options options = ten_seconds(task);
  options.node.course.work.wall = 10min;
  Simulator world(options, task.workloads());
  StageEndings endings;
  world.watch(endings);
  world.run(Time(2min));
  REQUIRE(world.all_ended());
  for (PeerNumber peer = 0; peer < task.peers; ++peer) CHECK(endings.steps.at(peer) == 20);
}

TEST_CASE("a checkpoint of stages says for how long the swarm has trained", "[unit]") {
  const PipelineTask task{.peers = 2, .stages = 2};
  StageReplica replica(task.learner(0));
  Job job;
  job.add(task::LoadStages{.held = {{.stage = 1, .slices = {}}}, .states = {}});
  job.add(task::FollowSwarm{0.5, 1, {.samples = 480, .ran = 7s}});
  replica.run(std::move(job));
  const std::vector<ReplicaPart> parts = replica.parts();
  REQUIRE(parts.size() == 1);
  StageReplica resumed(task.learner(0));
  REQUIRE(resumed.restore(parts.front()).empty());
  CHECK(resumed.swarm_note().samples == 480);
  CHECK(resumed.swarm_note().ran == 7s);
}

TEST_CASE("more than a third of the peers that have a version end with it", "[unit]") {
  const ModelVersion old{.step = 3, .samples = 30, .lineage = 7};
  const ModelVersion version{.step = 4, .samples = 40, .lineage = 8};
  Answers answers;
  for (std::uint64_t peer = 1; peer <= 6; ++peer) answers[PeerId(peer)].version = version;
  answers[PeerId(1)].ends = answers[PeerId(2)].ends = true;
  CHECK_FALSE(is_end_agreed(answers, version));
  answers[PeerId(3)].ends = true;
  CHECK(is_end_agreed(answers, version));
  // A newcomer does not take part in the decision.
  answers[PeerId(1)].version = answers[PeerId(2)].version = old;
  CHECK_FALSE(is_end_agreed(answers, version));
  // A peer that has only one of its stages does take part in it.
  answers[PeerId(1)].holdings = {{.stage = 0, .carried = true, .version = version}};
  CHECK(is_end_agreed(answers, version));
}

TEST_CASE("peers of a run without a common end do not repeat that a hostile one reports an end",
          "[unit]") {
  const ReplicaPlanner planner({});
  const auto repeats = [&](const SwarmWorkOptions& options) {
    Agreement agreement(PeerId{1}, 0, {}, signer_of(PeerId{1}));
    agreement.set_candidates(Time(0s), {PeerId{1}, PeerId{2}});
    AgreedEnd end;
    end.enter({.version = {.step = 4}, .ends = true}, SwarmWork(PeerId{1}, options), agreement);
    Effects out;
    agreement.receive(Time(1s), PeerId{2}, Message(Propose{.ballot = {1, 0, PeerId{2}}}), planner,
                      out);
    REQUIRE(out.messages.size() == 1);
    return std::get<Promise>(out.messages.front().message).answer.ends;
  };
  CHECK_FALSE(repeats({}));
  CHECK(repeats({.budget = 100}));
}

}  // namespace gv
