// Pipelines that end at a target accuracy: tests of the model between runs, verdicts, and deaths
// and liars among the peers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/fingerprint.hpp"
#include "peer/modes/pipeline.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "sim/virtual/swarm.hpp"
#include "tests/sim/pipeline_run.hpp"
#include "train/evaluation.hpp"
#include "train/model.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// Records the measurements of peers, and the state in which they end.
class Verdicts : public Watcher {
 public:
  explicit Verdicts(const PipelineTask& task) : task_(task) {}

  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override {
    if (const auto* measured = first_of<result::Measured>(done.results)) {
      values[done.step].push_back(measured->value);
      wanted[done.step] = merit(world);
    }
    if (first_of<task::Save>(done.job.tasks) == nullptr) return;
    steps[peer] = done.step;
    for (const std::uint32_t part : world.peer(peer).node->as<PipelineMode>()->held_parts()) {
      const std::vector<float> own = world.peer(peer).work->part(part);
      if (!own.empty()) parts[part].insert(fingerprint(own));
    }
  }

  std::map<std::uint64_t, std::vector<double>> values;  ///< Measured accuracies, by step.
  std::map<std::uint64_t, double> wanted;  ///< Accuracy of the whole model at each of these steps.
  std::map<PeerNumber, std::uint64_t> steps;
  std::map<std::uint32_t, std::set<std::uint64_t>> parts;  ///< Fingerprints by part, stages first.

 private:
  /// The accuracy of the stages that the peers carry now.
  double merit(const Simulator& world) const {
    std::map<std::uint32_t, std::vector<float>> all;
    for (PeerNumber peer = 0; peer < world.size(); ++peer) {
      if (world.peer(peer).state != PeerState::up) continue;
      for (const std::uint32_t stage : world.peer(peer).node->as<PipelineMode>()->stages()) {
        const Replica& work = *world.peer(peer).work;
        std::span<const float> own = work.stage(stage);
        // A member of a group holds some ranges of the stage.
        for (const Range& range : work.stage_ranges(stage)) {
          std::vector<float>& values = all[stage];
          values.resize(std::max(values.size(), range.end));
          std::ranges::copy(own.first(range.size()),
                            values.begin() + static_cast<std::ptrdiff_t>(range.begin));
          own = own.subspan(range.size());
        }
      }
    }
    std::vector<float> parameters;
    for (const auto& [stage, own] : all) {
      parameters.insert(parameters.end(), own.begin(), own.end());
    }
    const auto data = task_.test_data();
    Model model(task_.spec(0).trainer.model, data->shape, evaluation_batch(*data));
    return evaluate(model, parameters, *data).accuracy();
  }

  PipelineTask task_;
};

/// Runs to the end, which must come at one step for these peers. Returns the measurements.
Verdicts ended(const PipelineTask& task, Simulator::Options options,
               const std::set<PeerNumber>& peers) {
  options.node.course.linger = 20s;
  Simulator world(options, task.workloads());
  Verdicts verdicts(task);
  world.watch(verdicts);
  run_to_the_end(world, Time(5min));
  for (const PeerNumber peer : peers) {
    INFO("peer-" << peer);
    REQUIRE(verdicts.steps.contains(peer));
    CHECK(verdicts.steps.at(peer) == verdicts.steps.at(*peers.begin()));
  }
  return verdicts;
}

std::set<PeerNumber> first(std::size_t count) {
  std::set<PeerNumber> peers;
  for (PeerNumber peer = 0; peer < count; ++peer) peers.insert(peer);
  return peers;
}

constexpr std::uint64_t endless = 100'000;

/// The stages after the task's steps.
std::map<std::size_t, std::vector<std::vector<float>>> trained(const PipelineTask& task) {
  Simulator world(task.options(), task.workloads());
  StageRecord record(task.steps);
  world.watch(record);
  world.run(Time(10min));
  INFO(record.story);
  CHECK((record.facts.of<TargetMeasured>() > 0) == (task.target > 0));
  // Replicas that gossip differ, and their order is arbitrary.
  for (auto& [stage, replicas] : record.stages) std::ranges::sort(replicas);
  return record.stages;
}

}  // namespace

TEST_CASE("a pipeline with the target ends at one step with every stage, in every schedule",
          "[sim]") {
  const PipelineKind kind = GENERATE(from_range(pipeline_kinds));
  PipelineTask task{.peers = 4, .stages = 2, .kind = kind, .steps = endless};
  task.target = 0.8;
  task.test_every = 3;
  INFO(to_string(kind));
  const Verdicts verdicts = ended(task, task.options(), first(4));
  const std::uint64_t end = verdicts.steps.at(0);
  CHECK(end < 2000);
  for (const auto& [part, bits] : verdicts.parts) CHECK(bits.size() == 1);
  CHECK((verdicts.parts.contains(0) && verdicts.parts.contains(1)));
  std::uint64_t reached = endless;
  for (const auto& [step, values] : verdicts.values) {
    CHECK(step % 3 == 0);
    const auto votes = std::ranges::count_if(values, [](double one) { return one >= 0.8; });
    if (2 * static_cast<std::size_t>(votes) > values.size()) reached = std::min(reached, step);
    // Two replicas of the last stage each test 28 samples. There are only 54 samples, so two of
    // them are tested twice.
    double sum = 0;
    for (const double value : values) sum += value / static_cast<double>(values.size());
    if (is_synchronous(kind)) CHECK(std::abs(sum - verdicts.wanted.at(step)) < 0.05);
  }
  CHECK(reached <= end);
  CHECK(end < reached + 60);  // A ballot may take that long.
}

TEST_CASE("the peer with the last stage measures the accuracy of the whole model", "[sim]") {
  const std::size_t group = GENERATE(1, 3);
  PipelineTask task{.peers = 2 * group, .stages = 2, .steps = 12, .group = group};
  task.target = 2;  // This target is never reached.
  // With four micro-batches no sample has to be tested twice.
  task.micro_batches = 4;
  Simulator::Options options = task.options();
  options.node.pipeline.test_samples = 52;
  const Verdicts verdicts = ended(task, options, first(2 * group));
  CHECK(verdicts.steps.at(0) == 12);
  CHECK(verdicts.values.size() == 11);
  for (const auto& [step, values] : verdicts.values) {
    CHECK(values.size() == group);
    for (const double value : values) {
      // The last two of 54 samples are left out.
      CHECK(std::abs(value - verdicts.wanted.at(step)) <= 2.0 / 52);
    }
  }
}

TEST_CASE("groups that test their model stand still only for the death of a member", "[sim]") {
  for (const std::uint64_t every : {1, 7}) {
    PipelineTask task{.peers = 4, .stages = 2, .steps = 2000, .group = 2};
    task.target = 2;  // This target is never reached.
    task.test_every = every;
    Simulator::Options options = task.options();
    options.scenario.faults = {fault(FaultKind::kill, 2s, just(2), 1s)};
    Simulator world(options, task.workloads());
    StageRecord record(task.steps);
    world.watch(record);
    run_to_the_end(world, Time(5min));
    INFO(record.story);
    CHECK(record.facts.of<TargetMeasured>() > 0);
    // Each of the three survivors reports one end, because of the death. A generation that divides
    // the work differently replaces the one before without an end.
    CHECK(record.facts.of<GenerationEnded>() == 3);
  }
}

TEST_CASE("members of a group test batch norms by running statistics and sum none", "[sim]") {
  PipelineTask task{
      .peers = 3, .stages = 1, .steps = 12, .group = 3, .side = 10, .has_norms = true};
  task.target = 2;  // This target is never reached.
  const Verdicts verdicts = ended(task, task.options(), first(3));
  CHECK(verdicts.steps.at(0) == 12);
  CHECK(verdicts.values.size() == 11);
  for (const auto& [step, values] : verdicts.values) {
    // A test repeats its first samples to fill its last places, and one sample may be close to two
    // classes.
    for (const double value : values) CHECK(std::abs(value - verdicts.wanted.at(step)) <= 4.0 / 54);
  }
}

TEST_CASE("tests change no model, with any schedule, consensus, router or group", "[sim]") {
  const auto is_same = [](PipelineTask task) {
    INFO(to_string(task.kind) << ", " << to_string(task.router) << ", " << to_string(task.consensus)
                              << ", groups of " << task.group);
    task.steps = 6;
    const auto without = trained(task);
    task.target = 2;
    CHECK(trained(task) == without);
  };
  for (const PipelineKind kind : pipeline_kinds) {
    const bool is_chimera = kind == PipelineKind::chimera;
    for (const std::size_t peers : {2, 4}) {
      is_same({.peers = peers, .stages = 2, .kind = kind});
      if (peers == 4 && !is_chimera) {
        is_same({.peers = 4, .stages = 2, .kind = kind, .consensus = StageConsensus::gossip});
      }
    }
  }
  for (const RouterKind router : router_kinds) is_same({.peers = 5, .stages = 3, .router = router});
  is_same({.peers = 4, .stages = 2, .consensus = StageConsensus::mixing});
  is_same({.peers = 4, .stages = 2, .kind = PipelineKind::zero_bubble, .group = 2});
  is_same({.peers = 3, .stages = 1, .group = 3});
  is_same({.peers = 3, .stages = 1, .group = 3, .side = 10, .has_norms = true});
}

TEST_CASE("a death at any moment of a test gives it up and the others end with the target",
          "[sim]") {
  for (int moment = 0; moment < 24; ++moment) {
    PipelineTask task{.peers = 4, .stages = 2, .steps = endless};
    task.target = 0.8;
    if (moment % 3 == 1) task.group = 2;
    if (moment % 3 == 2) {
      task.kind = PipelineKind::two_bw;
      task.target = 0.6;  // The model trains less well with this learning rate.
    }
    Simulator::Options options = task.options();
    options.seed = static_cast<std::uint64_t>(moment);
    const auto killed = static_cast<std::size_t>(moment % 4);
    options.scenario.faults = {
        fault(FaultKind::kill, Duration(500ms) + moment * 7300us, just(killed))};
    std::set<PeerNumber> left = first(4);
    left.erase(killed);
    INFO("moment " << moment);
    const Verdicts verdicts = ended(task, options, left);
    CHECK(verdicts.steps.at(*left.begin()) < 3000);
    CHECK((verdicts.parts.contains(0) && verdicts.parts.contains(1)));
    for (const auto& [part, bits] : verdicts.parts) CHECK(bits.size() == 1);
  }
}

namespace {

/// Stages of a peer that makes false reports about the model.
class BoastingStages final : public Replica {
 public:
  BoastingStages(std::unique_ptr<StageLearner> learner, double says)
      : inner_(std::move(learner)), says_(says) {}

  JobDone run(Job job) override {
    JobDone done = inner_.run(std::move(job));
    for (JobDone::Result& result : done.results) {
      if (auto* measured = std::get_if<result::Measured>(&result)) measured->value = says_;
    }
    return done;
  }
  void set_hooks(ReplicaHooks hooks) override { inner_.set_hooks(std::move(hooks)); }
  void mix_by(const MixRule& rule, std::uint64_t seed) override { inner_.mix_by(rule, seed); }
  std::uint64_t step() const override { return inner_.step(); }
  std::span<const float> stage(std::size_t stage) const override { return inner_.stage(stage); }
  std::vector<ReplicaPart> parts() const override { return inner_.parts(); }
  std::string restore(ReplicaPart part) override { return inner_.restore(std::move(part)); }

 private:
  StageReplica inner_;
  double says_;
};

}  // namespace

TEST_CASE("one liar among three judges of a pipeline neither ends a run nor keeps it from ending",
          "[sim]") {
  const double says = GENERATE(0.0, 1.0);
  PipelineTask task{.peers = 3, .stages = 1, .steps = 40};
  task.target = says == 0 ? 0.6 : 2.0;
  Simulator world(task.options(), [&](PeerNumber peer) -> std::unique_ptr<Replica> {
    if (peer == 0) return std::make_unique<BoastingStages>(task.learner(peer), says == 0 ? 0 : 3);
    return std::make_unique<StageReplica>(task.learner(peer));
  });
  StageRecord record(task.steps);
  world.watch(record);
  world.run(Time(5min));
  INFO(record.story);
  CHECK(record.facts.of<TargetMeasured>() > 5);
  if (says == 0) {
    CHECK(record.newest < 40);
  } else {
    CHECK(record.newest == 40);
    CHECK(record.facts.of<TargetReached>() == 0);
  }
}

TEST_CASE("drawn pipelines with a target hold every invariant, and many end by it", "[sim]") {
  std::size_t reached = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    DrawnWorld world = as_pipeline(draw_world(seed));
    world.config.run.target = 0.3;
    world.config.run.target_every = 1e-6;  // Tests come as often as possible.
    INFO(to_toml(world));
    StageRecord record(0);
    const Verdict verdict = run_world(world, &record);
    if (verdict.violation) INFO(verdict.violation->what);
    REQUIRE_FALSE(verdict.violation);
    reached += record.facts.of<TargetReached>() > 0;
  }
  CHECK(reached > 10);
}

}  // namespace gv
