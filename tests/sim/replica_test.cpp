// Replicas run the tasks of a job in order, and both kinds of replica have one interface.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "peer/config/resumed_stages.hpp"
#include "peer/config/task.hpp"
#include "peer/node/stage_replica.hpp"
#include "peer/node/whole_replica.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "tests/peer/tiny_learner.hpp"
#include "tests/temporary_folder.hpp"
#include "train/checkpoint/checkpoint.hpp"

namespace gv {
namespace {

constexpr std::size_t dimension = 8;

std::unique_ptr<Replica> whole() {
  return std::make_unique<WholeReplica>(quadratic_learner({.dimension = dimension}, 0), 0);
}

std::unique_ptr<StageReplica> staged() {
  const StageSize size{.parameters = 4, .state = 4, .forward = 4, .backward = 4};
  return std::make_unique<StageReplica>(idle_stage_learner({size, size}));
}

Force force_of(float value) {
  return {.values = std::make_shared<const std::vector<float>>(dimension, value),
          .checksum = {1, 0, 0, 0, 0, 0, 0, 2}};
}

std::unique_ptr<Learner> adam_learner() { return tiny_learner(OptimizerKind::adam); }

}  // namespace

TEST_CASE("tasks are done in the order in which a job names them", "[unit]") {
  const auto replica = whole();
  const auto first = std::make_shared<Snapshot>();
  const auto second = std::make_shared<Snapshot>();
  const auto third = std::make_shared<Snapshot>();
  const JobDone done = replica->run(
      {.number = 7,
       .tasks = {task::TakeSnapshot{first}, task::TakeSteps{3}, task::TakeSnapshot{second},
                 task::AddForces{{force_of(2)}}, task::TakeSnapshot{third}, task::TakeSteps{2}}});
  CHECK(first->step == 0);
  CHECK(second->step == 3);
  CHECK(first->values != second->values);
  for (std::size_t i = 0; i < dimension; ++i) {
    CHECK(third->values[i] == second->values[i] + 2);
  }
  CHECK(third->checksum.back() == second->checksum.back() + 2);
  CHECK(done.job.number == 7);
  CHECK(done.job.tasks.size() == 6);
  CHECK(done.step == 5);
  CHECK(done.steps_run == 5);
}

TEST_CASE("results come in the order of the tasks that have one", "[unit]") {
  const auto replica = whole();
  const auto values = std::make_shared<Floats>(dimension);
  const JobDone done = replica->run(
      {.tasks = {task::TakeFingerprint{}, task::ComputeGradient{.samples = 5, .values = values},
                 task::ApplyUpdate{.values = values}, task::TakeFingerprint{}}});
  REQUIRE(done.results.size() == 3);
  CHECK(std::get<result::Gradient>(done.results[1]).samples == 5);
  CHECK(std::get<result::Fingerprint>(done.results[0]).value !=
        std::get<result::Fingerprint>(done.results[2]).value);
  CHECK(done.step == 1);
}

TEST_CASE("a replica that has made steps refuses a state far longer than its own", "[unit]") {
  const auto load = [](float value) {
    return task::LoadState{.values = std::make_shared<const Floats>(dimension, value),
                           .step = 50,
                           .model_only = true,
                           .norm_cap = 10};
  };
  // A new replica has nothing to lose, and does not know the norm of a usual model.
  const auto fresh = whole();
  CHECK(fresh->run({.tasks = {load(1e6F)}}).results.empty());
  CHECK(fresh->step() == 50);

  const auto replica = whole();
  replica->run({.tasks = {task::TakeSteps{3}}});
  const std::vector<float> before(replica->parameters().begin(), replica->parameters().end());
  for (const float value : {1e6F, 0x1p100F, std::numeric_limits<float>::quiet_NaN()}) {
    const JobDone done = replica->run(
        {.tasks = {task::TakeFingerprint{}, load(value), task::TakeSteps{2}, task::Save{}}});
    CHECK(done.job.tasks.size() == 1);
    CHECK_FALSE(done.job.saves());
    REQUIRE(done.results.size() == 2);
    REQUIRE(first_of<result::StateRefused>(done.results) != nullptr);
    CHECK(first_of<result::StateRefused>(done.results)->why == Reason::norm_exceeded);
    CHECK(replica->step() == 3);
    CHECK(std::ranges::equal(replica->parameters(), before));
  }
  CHECK(replica->run({.tasks = {load(1)}}).results.empty());
  CHECK(replica->step() == 50);
}

TEST_CASE("a replica refuses a state that no optimiser can have made", "[unit]") {
  WholeReplica giver(adam_learner(), 0);
  giver.run({.tasks = {task::TakeSteps{3}}});
  const auto state = std::make_shared<Floats>(giver.state_size());
  giver.run({.tasks = {task::ExportState{state}}});
  const auto load = [](std::shared_ptr<const Floats> values) {
    return task::LoadState{.values = std::move(values), .step = 3};
  };

  // A new replica does not know the norm of a usual model, but it knows what an optimiser can
  // produce.
  WholeReplica newcomer(adam_learner(), 1);
  const auto negative = std::make_shared<Floats>(*state);
  negative->back() = -1;
  const JobDone done = newcomer.run({.tasks = {load(negative), task::TakeSteps{2}}});
  REQUIRE(first_of<result::StateRefused>(done.results) != nullptr);
  CHECK(first_of<result::StateRefused>(done.results)->why == Reason::impossible);
  CHECK(done.job.tasks.empty());
  CHECK(newcomer.step() == 0);

  CHECK(newcomer.run({.tasks = {load(state)}}).results.empty());
  CHECK(newcomer.step() == 3);
  CHECK(std::ranges::equal(newcomer.parameters(), giver.parameters()));
}

TEST_CASE("a rule that is told together with a state is kept if the state is refused", "[unit]") {
  WholeReplica replica(adam_learner(), 0);
  const auto bad = std::make_shared<Floats>(replica.state_size());
  bad->back() = -1;
  const MixPlace alone{.rank = 0, .order = {PeerId{1}}, .key = 1, .step = 3};
  const auto rule = std::make_shared<const MixRule>();
  const JobDone refused =
      replica.run({.tasks = {task::LoadState{.values = bad, .step = 3},
                             task::EnterGeneration{alone, rule, 1}, task::TakeSteps{2}}});
  REQUIRE(first_of<result::StateRefused>(refused.results) != nullptr);
  // The next job does not contain the rule again.
  replica.run({.tasks = {task::EnterGeneration{alone, nullptr, 1}}});
  CHECK(replica.step() == 3);
}

TEST_CASE("a mean before another mode holds the optimisers' states as well", "[unit]") {
  WholeReplica replica(adam_learner(), 0);
  const std::size_t parameters = replica.learner().layout().size();
  const std::size_t all = replica.state_size();
  REQUIRE(all > parameters);
  CompressionPlan plan;
  plan.elements = all;
  const auto brought = std::make_shared<Floats>(all);
  const auto state = std::make_shared<Floats>(all);
  replica.run(
      {.tasks = {task::TakeSteps{3}, task::ExportState{state},
                 task::ComputeGradient{.of_model = true, .plan = plan, .values = brought}}});
  CHECK(*brought == *state);
  // Another replica that adopts this sum over a single peer gets the same state.
  WholeReplica other(adam_learner(), 1);
  other.run({.tasks = {task::TakeSteps{1},
                       task::ApplyUpdate{.values = brought, .plan = plan, .becomes_model_at = 9},
                       task::ExportState{brought}}});
  CHECK(other.step() == 9);
  CHECK(*brought == *state);
}

TEST_CASE("the mean at the end of a run is noted until something changes the model", "[unit]") {
  const auto ends = std::make_shared<const SwarmNote>(
      SwarmNote{.samples = 500, .end = RunEnd{.budget = 400, .models = 3, .lineage = 7}});
  const task::LoadState mean{.values = std::make_shared<const Floats>(dimension, 1.0F),
                             .step = 12,
                             .model_only = true,
                             .end_note = ends};
  const auto replica = whole();
  replica->run({.tasks = {task::TakeSteps{3}, mean}});
  CHECK(replica->step() == 12);
  CHECK(replica->swarm_note().end == ends->end);
  // A peer that leaves saves a note of its progress once more.
  replica->run({.tasks = {task::FollowSwarm{1, 1, SwarmNote{.samples = 600}}}});
  const auto resumed = whole();
  REQUIRE(resumed->restore(replica->parts().front()).empty());
  CHECK(resumed->step() == 12);
  CHECK(resumed->swarm_note().samples == 600);
  CHECK(resumed->swarm_note().end == ends->end);

  const auto other_mean = [&] {
    task::LoadState other = mean;
    other.end_note.reset();
    return other;
  };
  const std::vector<Job::Task> changes = {task::TakeSteps{1}, task::AddForces{{force_of(1)}},
                                          other_mean()};
  for (const Job::Task& change : changes) {
    resumed->run({.tasks = {mean}});
    REQUIRE(resumed->swarm_note().end);
    resumed->run({.tasks = {change}});
    CHECK_FALSE(resumed->swarm_note().end);
  }
}

TEST_CASE("a whole replica goes on from its parts like one that never stopped", "[unit]") {
  const auto replica = whole();
  replica->run({.tasks = {task::TakeSteps{3}, task::AddForces{{force_of(1)}}}});
  const auto other = whole();
  REQUIRE(replica->parts().size() == 1);
  REQUIRE(other->restore(replica->parts().front()).empty());
  CHECK(other->step() == 3);
  CHECK(other->checksum() == replica->checksum());
  for (Replica* each : {replica.get(), other.get()}) each->run({.tasks = {task::TakeSteps{4}}});
  CHECK(std::ranges::equal(other->parameters(), replica->parameters()));
}

TEST_CASE("stages do not begin beside sound checkpoints of another cut", "[unit]") {
  const TemporaryFolder folder;
  const auto resume = [&] { return resumed_stages(staged(), folder.path()); };
  CHECK(resume().problems.empty());
  Layout other;
  other.add("other", {3});
  const std::vector<float> values(3, 1);
  const auto of_stage = stage_folder(folder.path(), 1);
  REQUIRE(save_checkpoint(of_stage, other, values, {.step = 5}, {}, 3).empty());
  const Problems problems = resume().problems;
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().place.find("stage-1") != std::string::npos);
  // A damaged checkpoint is no reason to refuse to resume, since other peers may have the stage.
  std::filesystem::resize_file(of_stage / "step-0000000005.safetensors", 20);
  CHECK(resume().problems.empty());
}

TEST_CASE("a stage averages with another replica only within ten times its norm", "[unit]") {
  const auto replica = staged();
  const auto end_with = [&replica](float ours, float theirs) {
    task::EndRun end;
    end.ends.push_back({.stage = 0,
                        .mean = std::make_shared<Floats>(4, ours / 2 + theirs / 2),
                        .snapshot = std::make_shared<Floats>(4, ours),
                        .force = 1});
    const float before = replica->stage(0).front();
    replica->run({.tasks = {std::move(end)}});
    return replica->stage(0).front() - before;
  };
  replica->run({.tasks = {task::LoadStages{.held = {{.stage = 0, .slices = {}}}, .states = {}}}});
  CHECK(end_with(1, 3) == 1);
  CHECK(end_with(1, 9) == 4);
  CHECK(end_with(1, 11) == 0);  // The norm of our own model is 2.
  CHECK(end_with(0, 4) == 2);   // A norm below 1 counts as 1.
  CHECK(end_with(0, 6) == 0);
  CHECK(end_with(1, -1e30F) == 0);
  CHECK(end_with(1, std::numeric_limits<float>::infinity()) == 0);
}

TEST_CASE("stages go on from their parts and the version is in the notes of each", "[unit]") {
  const auto replica = staged();
  const ModelVersion version{.step = 5, .samples = 40, .lineage = 99};
  replica->run({.version = version,
                .tasks = {task::MoveTo{5}, task::LoadStages{{{0, {}}, {1, {}}}, {}},
                          task::ReleaseStages{{0}}}});
  CHECK(replica->step() == 5);
  CHECK(replica->stage(0).empty());
  const std::vector<ReplicaPart> parts = replica->parts();
  REQUIRE(parts.size() == 1);
  CHECK(parts.front().stage == 1);
  CHECK(version_of(parts.front().notes) == version);
  CHECK_FALSE(version_of({}));
  const auto other = staged();
  REQUIRE(other->restore(parts.front()).empty());
  CHECK(std::ranges::equal(other->stage(1), replica->stage(1)));
}

TEST_CASE("a peer of a pipeline that has gone back leaves no checkpoint of a later step",
          "[unit]") {
  const TemporaryFolder folder;
  const auto replica = staged();
  replica->run({.tasks = {task::LoadStages{{{0, {}}, {1, {}}}, {}}}});
  for (const std::uint64_t step : {5, 9}) {
    replica->run({.version = {.step = step}, .tasks = {task::MoveTo{step}}});
    REQUIRE(save_replica(folder.path(), *replica, {}, "").empty());
  }
  // The first stage is no longer this peer's, but its checkpoint of step 9 is abandoned as well.
  replica->run({.version = {.step = 7}, .tasks = {task::MoveTo{7}, task::ReleaseStages{{0}}}});
  REQUIRE(save_replica(folder.path(), *replica, {}, "").empty());
  const auto names = [&](std::size_t stage) {
    std::vector<std::string> names;
    for (const auto& file : parameter_files(stage_folder(folder.path(), stage))) {
      names.push_back(file.filename().string());
    }
    return names;
  };
  CHECK(names(0) == std::vector<std::string>{"step-0000000005.safetensors"});
  CHECK(names(1) ==
        std::vector<std::string>{"step-0000000007.safetensors", "step-0000000005.safetensors"});
}

TEST_CASE("a resumed peer of a pipeline knows how long the swarm has trained", "[unit]") {
  const TemporaryFolder folder;
  for (const std::uint64_t step : {5, 7, 9}) {
    const auto replica = staged();
    const SwarmNote note{.samples = 8 * step, .ran = std::chrono::seconds(step)};
    replica->run({.version = {.step = step, .samples = 8 * step, .lineage = 7},
                  .tasks = {task::MoveTo{step}, task::LoadStages{{{0, {}}, {1, {}}}, {}},
                            task::FollowSwarm{0.5, 1, note}}});
    REQUIRE(save_replica(folder.path(), *replica, {}, "").empty());
  }
  const StartingPoint point = resumed_stages(staged(), folder.path());
  REQUIRE(point.version);
  CHECK(point.version->step == 9);
  CHECK(point.replica->swarm_note().ran == std::chrono::seconds(9));
  CHECK(point.replica->swarm_note().samples == 72);
}

}  // namespace gv
