// Groups of virtual peers that carry a stage together are as exact as one peer, through any death.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <map>
#include <vector>

#include "peer/modes/pipeline.hpp"
#include "sim/virtual/pipeline_invariants.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "sim/virtual/swarm.hpp"
#include "tests/sim/pipeline_run.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// Records the size of the largest group that makes passes of each stage.
class GroupRecord : public Watcher {
 public:
  void on_job_done(const Simulator&, PeerNumber, const JobDone& done) override {
    const auto* pass = first_of<task::StagePass>(done.job.tasks);
    if (pass == nullptr) return;
    const std::size_t members = pass->group ? pass->group->members : 1;
    sizes[pass->what.stage] = std::max(sizes[pass->what.stage], members);
  }

  std::map<std::size_t, std::size_t> sizes;  ///< The largest group size, keyed by stage.
};

/// Trains, and checks that all carriers of a part have the same bits. Returns the parts.
std::vector<std::vector<float>> trained(const PipelineTask& task,
                                        const Simulator::Options& options) {
  Simulator world(options, task.workloads());
  StageRecord record(task.steps);
  GroupRecord groups;
  PipelineInvariants invariants;
  world.watch(record);
  world.watch(groups);
  world.watch(invariants);
  world.run(Time(10min));
  INFO(record.story << (invariants.violation() ? invariants.violation()->what : ""));
  CHECK_FALSE(invariants.violation());
  REQUIRE(record.newest == task.steps);
  // The parts for slices of images have no parameters.
  const std::vector<PartSize> sizes = options.node.pipeline.part_sizes();
  const auto recorded =
      std::ranges::count_if(sizes, [](const PartSize& part) { return part.parameters > 0; });
  REQUIRE(record.stages.size() == static_cast<std::size_t>(recorded));
  REQUIRE(record.facts.of<SumRefused>() == 0);
  record.require_equal_replicas();
  std::vector<std::vector<float>> stages;
  for (const auto& [stage, replicas] : record.stages) {
    stages.push_back(replicas.front());
    if (!options.scenario.faults.empty() || stage >= task.stages) continue;
    const std::size_t carriers = std::max<std::size_t>(1, task.peers / task.stages);
    CHECK(groups.sizes.at(stage) == std::min(task.group, carriers));
  }
  // All peers begin one generation, and those that remain after the fault begin another.
  if (!options.scenario.faults.empty()) CHECK(record.facts.of<GenerationBegan>() > task.peers);
  return stages;
}

bool are_near(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  return std::ranges::equal(a, b, [](const auto& one, const auto& other) {
    return std::ranges::equal(
        one, other, [](float x, float y) { return std::abs(x - y) < 1e-4F * (1 + std::abs(x)); });
  });
}

}  // namespace

TEST_CASE("a group trains as one peer does and its members have the same bits", "[sim]") {
  for (const PipelineKind kind :
       {PipelineKind::gpipe, PipelineKind::one_f_one_b, PipelineKind::zero_bubble}) {
    for (const std::size_t stages : {1, 2}) {
      for (const std::size_t members : {2, 3}) {
        PipelineTask task{.peers = 1, .stages = stages, .kind = kind, .group = members};
        INFO(to_string(kind) << ", " << stages << " stages, groups of " << members);
        const auto one = trained(task, task.options());
        task.peers = stages * members;
        const auto shared = trained(task, task.options());
        CHECK(are_near(one, shared));
        CHECK(trained(task, task.options()) == shared);
      }
    }
  }
}

TEST_CASE("a group trains on images in strips as one peer does, through deaths as well", "[sim]") {
  for (const std::size_t stages : {1, 2}) {
    for (const std::size_t members : {2, 3}) {
      PipelineTask task{.peers = 1, .stages = stages, .group = members, .side = 10};
      INFO(stages << " stages, groups of " << members);
      const auto one = trained(task, task.options());
      task.peers = stages * members;
      const auto shared = trained(task, task.options());
      CHECK(are_near(one, shared));
      CHECK(trained(task, task.options()) == shared);
    }
  }
  // The groups have three and two members, and one of them loses a member.
  PipelineTask task{.peers = 5, .stages = 1, .steps = 80, .group = 3, .side = 10};
  for (int moment = 0; moment < 10; ++moment) {
    Simulator::Options options = task.options();
    options.scenario.faults = {fault(FaultKind::kill, Duration(2s) + moment * 6800us,
                                     just(static_cast<std::size_t>(moment % 5)))};
    INFO("moment " << moment);
    trained(task, options);
  }
}

TEST_CASE("a group trains with batch norms and dropout in strips as one peer does", "[sim]") {
  for (const std::size_t stages : {1, 2}) {
    // There are few steps, because a batch norm amplifies the differences that the order of sums
    // causes.
    PipelineTask task{
        .peers = 1, .stages = stages, .steps = 6, .group = 3, .side = 10, .has_norms = true};
    INFO(stages << " stages");
    const auto one = trained(task, task.options());
    task.peers = stages * 3;
    const auto shared = trained(task, task.options());
    CHECK(are_near(one, shared));
    CHECK(trained(task, task.options()) == shared);
  }
}

TEST_CASE("replicas that are groups sum with each other like replicas that are peers", "[sim]") {
  for (const RouterKind router : router_kinds) {
    // The groups have two and one members, then three and two, then two and two.
    for (const std::size_t peers : {3, 5, 8}) {
      PipelineTask task{.peers = peers, .stages = peers == 8 ? 2U : 1U, .router = router};
      task.group = peers == 5 ? 3 : 2;
      trained(task, task.options());
    }
  }
}

TEST_CASE("stages that nobody can share have replicas among those that groups carry", "[sim]") {
  PipelineTask task{.peers = 4, .stages = 2, .group = 2, .is_first_narrow = true};
  Simulator::Options options = task.options();
  REQUIRE(options.node.pipeline.stages[0].slices.empty());
  Simulator world(options, task.workloads());
  StageRecord record(task.steps);
  GroupRecord groups;
  world.watch(record);
  world.watch(groups);
  world.run(Time(10min));
  INFO(record.story);
  REQUIRE(record.newest == task.steps);
  CHECK(groups.sizes == std::map<std::size_t, std::size_t>{{0, 1}, {1, 2}});
}

TEST_CASE("a death at any sum of a group gives the run up and the others share anew", "[sim]") {
  for (int moment = 0; moment < 30; ++moment) {
    PipelineTask task{.peers = 4, .stages = moment % 2 == 0 ? 2U : 1U, .steps = 80, .group = 4};
    if (moment % 3 == 1) task.kind = PipelineKind::zero_bubble;
    if (moment % 4 < 2) task.group = 2;
    Simulator::Options options = task.options();
    options.seed = static_cast<std::uint64_t>(moment);
    options.scenario.faults = {fault(FaultKind::kill, Duration(2s) + moment * 6800us,
                                     just(static_cast<std::size_t>(moment % 4)))};
    INFO("moment " << moment);
    trained(task, options);
  }
}

TEST_CASE("a group of idle peers takes its part of the time of one", "[sim]") {
  const auto step_s = [](std::size_t peers, std::size_t group) {
    Simulator::Options options = small_world(peers, 3, 16);
    options.scenario.step_jitter = 0;
    options.scenario.step = 240ms;
    options.node.mode = ModeKind::pipeline;
    options.node.course.wait_for_peers = peers;
    PipelineOptions& pipeline = options.node.pipeline;
    pipeline.micro_batches = 4;
    pipeline.group = group;
    pipeline.copy_every = 0;
    pipeline.stages = {
        {.parameters = 16, .state = 16, .forward_sums = {{16}, {16}}, .backward_sums = {{16}}}};
    pipeline.stages[0].slices.assign(slices_of_stage, {1, 1});
    pipeline.stage_seconds = {1};
    Simulator world(options, [&](std::size_t) { return idle_stage_workload(pipeline.stages); });
    const auto made = [&] { return world.peer(0).node->as<PipelineMode>()->counts().operations; };
    const auto time_of = [&](std::uint64_t operations) {
      while (made() < operations) REQUIRE(world.step(Time(10min)));
      return seconds(world.now().time_since_epoch());
    };
    world.run(Time(1ms));
    const double begin = time_of(2);
    return (time_of(6) - begin) / 4;
  };
  const double alone = step_s(1, 1);
  CHECK(alone == Approx(4 * 0.24).epsilon(0.05));
  CHECK(step_s(2, 2) < 0.6 * alone);
  CHECK(step_s(4, 4) < 0.35 * alone);
}

TEST_CASE("drawn worlds with groups hold every invariant, also with hostile members", "[sim]") {
  std::uint64_t operations = 0;
  std::size_t with_groups = 0;
  std::size_t hostile = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    DrawnWorld world = as_pipeline(draw_world(seed));
    if (world.config.pipeline.group == 1) continue;
    ++with_groups;
    hostile += world.scenario.saboteurs.ranges.empty() ? 0 : 1;
    const Verdict verdict = run_world(world);
    INFO("seed " << seed);
    INFO(text_of(verdict));
    CHECK_FALSE(verdict.violation);
    operations += verdict.runs;
  }
  CHECK(with_groups > 10);
  CHECK(hostile > 0);
  CHECK(operations > 100);
}

}  // namespace gv
