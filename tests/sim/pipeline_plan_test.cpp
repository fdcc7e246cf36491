// Virtual pipelines that choose stages by a plan: when stages move, how far, and how exact the
// prediction is.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "peer/modes/pipeline.hpp"
#include "sim/virtual/pipeline_invariants.hpp"
#include "sim/virtual/simulator.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "sim/virtual/swarm.hpp"
#include "tests/sim/pipeline_run.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// Peers of a pipeline that plans its stages. The stages do nothing but take time.
Simulator::Options planned_world(std::size_t peers, const std::vector<double>& stage_seconds,
                                 std::uint64_t seed = 3) {
  Simulator::Options options = small_world(peers, seed, 16);
  options.scenario.step_jitter = 0;
  options.scenario.step = 200ms;
  options.node.mode = ModeKind::pipeline;
  options.node.course.wait_for_peers = peers;
  PipelineOptions& pipeline = options.node.pipeline;
  pipeline.plan = StagePlanKind::automatic;
  pipeline.router = RouterKind::throughput;
  pipeline.micro_batches = 8;
  pipeline.copy_every = 4;
  for (const double seconds : stage_seconds) {
    const std::size_t passes = pipeline.stages.empty() ? 0 : 16;
    pipeline.stages.push_back(
        {.parameters = 16, .state = 16, .forward = passes, .backward = passes});
    pipeline.stage_seconds.push_back(seconds);
  }
  return options;
}

const PipelineMode& mode_of(const Simulator& world, PeerNumber peer) {
  return *world.peer(peer).node->as<PipelineMode>();
}

/// Records the assignments of a peer's generations, without repetitions.
class LayoutRecord : public Watcher {
 public:
  explicit LayoutRecord(PeerNumber peer) : peer_(peer) {}

  void after(const Simulator& world, PeerNumber peer) override {
    if (peer != peer_ || !world.peer(peer).node) return;
    const Generation* generation = mode_of(world, peer).generations()->current();
    if (generation == nullptr || generation->id == seen_) return;
    seen_ = generation->id;
    Layout layout;
    for (const StageAssignment& one : generation->assignments) {
      layout.emplace(one.carrier, one.stage);
    }
    if (layouts.empty() || layouts.back() != layout) layouts.push_back(std::move(layout));
  }

  using Layout = std::set<std::pair<PeerId, std::uint32_t>>;
  std::vector<Layout> layouts;

 private:
  PeerNumber peer_;
  GenerationId seen_;
};

MakeWorkload idle_stages(const Simulator::Options& options) {
  return [sizes = options.node.pipeline.stages](std::size_t) { return idle_stage_workload(sizes); };
}

}  // namespace

TEST_CASE("a pipeline with a plan moves once when a peer becomes slow and not back and forth",
          "[sim]") {
  for (const std::size_t slow : {0, 2}) {
    Simulator::Options options = planned_world(4, {0.25, 0.25, 0.25, 0.25});
    options.scenario.step_jitter = 0.1;
    FaultRule rule = fault(FaultKind::slow_cpu, 100s, just(slow));
    rule.factor = 0.2;
    options.scenario.faults = {rule};
    Simulator world(options, idle_stages(options));
    LayoutRecord record(1);
    PipelineInvariants invariants;
    world.watch(record);
    world.watch(invariants);
    world.run(Time(99s));
    INFO("peer " << slow << " becomes slow");
    const std::size_t before = record.layouts.size();
    CHECK(before <= 2);
    CHECK(mode_of(world, 0).predicted_s() > 0);
    world.run(Time(1000s));
    CHECK_FALSE(invariants.violation());
    CHECK(record.layouts.size() == before + 1);
    // Without a change a step would take five times as long as before.
    CHECK(mode_of(world, 1).generations()->operation_seconds() < 0.9 * 8 * 0.25 * 0.2 / 0.2);
    CHECK(mode_of(world, 1).generations()->operation_seconds() ==
          Approx(mode_of(world, 0).predicted_s()).epsilon(0.15));
  }
}

TEST_CASE("steps of virtual pipelines take as long as their plans predict", "[sim]") {
  struct Case {
    std::vector<double> speeds;
    std::vector<double> stages;
    std::size_t group = 1;
  };
  const std::vector<Case> cases = {
      {{1, 1}, {0.5, 0.5}},           {{1, 0.25}, {0.3, 0.3, 0.2, 0.2}},
      {{1, 1, 0.5}, {0.7, 0.1, 0.2}}, {{1, 0.5, 0.25, 1}, {0.4, 0.3, 0.2, 0.1}},
      {{1, 1, 1, 1, 0.5}, {1}},       {{1, 0.5}, {1}, 2},
      {{1, 1, 1, 1}, {0.5, 0.5}, 2},  {{1, 0.5, 0.5}, {0.5, 0.3, 0.2}, 3}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [speeds, stages, group] = cases[i];
    Simulator::Options options = planned_world(speeds.size(), stages);
    LinkQuality quality;
    quality.latency = 2ms;
    quality.bandwidth = 10;
    options.scenario.links = {every_link(quality)};
    for (std::size_t peer = 0; peer < speeds.size(); ++peer) {
      options.scenario.speeds.push_back({.peers = just(peer), .factor = speeds[peer]});
    }
    PipelineOptions& pipeline = options.node.pipeline;
    pipeline.group = group;
    for (std::size_t stage = 0; stage < stages.size() && group > 1; ++stage) {
      pipeline.stages[stage].forward_sums = {{2000}};
      pipeline.stages[stage].backward_sums.assign(stage > 0, {2000});
      pipeline.stages[stage].slices.assign(slices_of_stage, {1, 1});
    }
    Simulator world(options, idle_stages(options));
    LayoutRecord record(0);
    world.watch(record);
    world.run(Time(400s));
    const double measured = mode_of(world, 0).generations()->operation_seconds();
    INFO("case " << i << ": predicted " << mode_of(world, 0).predicted_s() << " s, measured "
                 << measured);
    CHECK(mode_of(world, 0).predicted_s() > 0);
    CHECK(mode_of(world, 0).predicted_s() == Approx(measured).epsilon(0.15));
  }
}

TEST_CASE("drawn pipelines with plans hold every invariant", "[sim]") {
  std::uint64_t operations = 0;
  std::size_t with_groups = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    DrawnWorld world = as_pipeline(draw_world(seed));
    PipelineConfig& pipeline = world.config.pipeline;
    if (!is_synchronous(pipeline.schedule) || pipeline.schedule == PipelineKind::chimera) continue;
    pipeline.plan = StagePlanKind::automatic;
    with_groups += pipeline.group > 1;
    const Verdict verdict = run_world(world);
    INFO("seed " << seed);
    INFO(text_of(verdict));
    CHECK_FALSE(verdict.violation);
    operations += verdict.runs;
  }
  CHECK(with_groups > 5);
  CHECK(operations > 100);
}

TEST_CASE("a pinned peer leaves its stage to others while it is away and has it again at once",
          "[sim]") {
  for (int moment = 0; moment < 8; ++moment) {
    const bool is_planned = moment % 2 == 1;
    const PipelineTask task{.peers = 3, .stages = 3, .steps = 100000};
    Simulator::Options options = task.options();
    options.seed = static_cast<std::uint64_t>(moment);
    if (is_planned) options.node.pipeline.plan = StagePlanKind::automatic;
    options.node.pipeline.pins = {{"peer-0", 2}, {"peer-2", 0}, {"elsewhere", 0}};
    options.scenario.faults = {fault(FaultKind::kill, Duration(5s) + moment * 7ms, just(0), 5s)};
    Simulator world(options, task.workloads());
    LayoutRecord record(1);
    PipelineInvariants invariants;
    StageRecord story(task.steps);
    world.watch(record);
    world.watch(invariants);
    world.watch(story);
    using Carried = std::set<std::uint32_t>;
    // With a plan each peer may carry further stages.
    const auto all_are_in_place = [&] {
      const auto is_in_place = [&](PeerNumber peer, std::uint32_t stage) {
        const Carried stages = mode_of(world, peer).stages();
        return is_planned ? stages.contains(stage) : stages == Carried{stage};
      };
      return is_in_place(0, 2) && is_in_place(2, 0) && (is_planned || is_in_place(1, 1));
    };
    world.run(Time(4s));
    CHECK(all_are_in_place());
    world.run(Time(9s));
    const bool is_carried =
        mode_of(world, 1).stages().contains(2) || mode_of(world, 2).stages().contains(2);
    CHECK(is_carried);
    CHECK(mode_of(world, 2).stages().contains(0));
    world.run(Time(20s));
    INFO("moment " << moment << "\n" << story.story);
    CHECK_FALSE(invariants.violation());
    CHECK(story.facts.of<StageLost>() == 0);
    CHECK(all_are_in_place());
    // The peer gets its stage in the first generation that includes the peer.
    for (const LayoutRecord::Layout& layout : record.layouts) {
      const auto carries = [&](const auto& one) { return one.first == id_of(0); };
      CHECK(layout.contains({id_of(0), 2}) == std::ranges::any_of(layout, carries));
    }
  }
}

TEST_CASE("drawn pipelines with pinned peers hold every invariant", "[sim]") {
  std::uint64_t operations = 0;
  std::size_t pinned = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    DrawnWorld world = as_pipeline(draw_world(seed));
    PipelineConfig& pipeline = world.config.pipeline;
    const auto last = static_cast<std::uint32_t>(pipeline.stage_count() - 1);
    pipeline.pins = {{"peer-0", last}, {"peer-2", 0}};
    LayoutRecord record(0);
    const Verdict verdict = run_world(world, &record);
    INFO("seed " << seed);
    INFO(text_of(verdict));
    CHECK_FALSE(verdict.violation);
    // No peer checks the pins that a hostile proposer uses.
    if (world.scenario.saboteurs.ranges.empty()) {
      for (const LayoutRecord::Layout& layout : record.layouts) {
        pinned += layout.contains({id_of(0), last});
        CHECK(layout.contains({id_of(0), last}));
      }
    }
    operations += verdict.runs;
  }
  CHECK(operations > 100);
  CHECK(pinned > 30);
}

TEST_CASE("a death at any moment of a move to a better plan lets the others go on", "[sim]") {
  for (int moment = 0; moment < 40; ++moment) {
    PipelineTask task{.peers = 4, .stages = 3, .steps = 120};
    Simulator::Options options = task.options();
    options.seed = static_cast<std::uint64_t>(moment);
    options.node.pipeline.plan = StagePlanKind::automatic;
    options.node.pipeline.stage_seconds = {0.2, 0.6, 0.2};
    options.scenario.step = 100ms;
    FaultRule slow = fault(FaultKind::slow_cpu, 2s, just(1));
    slow.factor = 0.2;
    options.scenario.faults = {slow, fault(FaultKind::kill, Duration(9s) + moment * 217ms,
                                           just(static_cast<std::size_t>(moment % 4)))};
    Simulator world(options, task.workloads());
    StageRecord record(task.steps);
    PipelineInvariants invariants;
    world.watch(record);
    world.watch(invariants);
    world.run(Time(10min));
    INFO("moment " << moment << "\n" << record.story);
    if (invariants.violation()) UNSCOPED_INFO(invariants.violation()->what);
    CHECK_FALSE(invariants.violation());
    REQUIRE(record.newest == task.steps);
    record.require_equal_replicas();
  }
}

}  // namespace gv
