// Pipelines of virtual peers are exact without faults, and exact again after any fault.
#include "peer/modes/pipeline.hpp"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/magnitude.hpp"
#include "cli/simulate.hpp"
#include "sim/virtual/pipeline_invariants.hpp"
#include "sim/virtual/swarm.hpp"
#include "tests/pipeline_points.hpp"
#include "tests/sim/pipeline_run.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

using Stages = std::map<std::size_t, std::vector<std::vector<float>>>;

/// Runs a task. Returns each stage once, and checks that all its carriers have the same bits.
Stages run(const PipelineTask& task, const Simulator::Options& options) {
  Simulator world(options, task.workloads());
  StageRecord record(task.steps);
  world.watch(record);
  world.run(Time(10min));
  INFO(record.story);
  REQUIRE(record.newest == task.steps);
  REQUIRE(record.stages.size() == task.stages);
  record.require_equal_replicas();
  return record.stages;
}

Stages run(const PipelineTask& task) { return run(task, task.options()); }

}  // namespace

TEST_CASE("a pipeline of virtual peers is one peer that carries all stages bit for bit", "[sim]") {
  for (const PipelineKind kind :
       {PipelineKind::gpipe, PipelineKind::one_f_one_b, PipelineKind::zero_bubble}) {
    PipelineTask task{.peers = 1, .stages = 3, .kind = kind};
    const Stages alone = run(task);
    task.peers = 3;
    const Stages chain = run(task);
    REQUIRE(alone.size() == 3);
    CHECK(chain == alone);
  }
}

TEST_CASE("replicas of a stage have the same bits whichever way micro-batches take", "[sim]") {
  for (const RouterKind router : router_kinds) {
    for (const PipelineKind kind :
         {PipelineKind::gpipe, PipelineKind::one_f_one_b, PipelineKind::zero_bubble}) {
      run({.peers = 6, .stages = 3, .kind = kind, .router = router});
      run({.peers = 5, .stages = 2, .micro_batches = 7, .kind = kind, .router = router});
    }
  }
}

TEST_CASE("chains in both directions end with the same bits in all replicas", "[sim]") {
  for (const std::size_t peers : {1, 2, 3, 5}) {
    run({.peers = peers, .stages = 4, .micro_batches = 7, .kind = PipelineKind::chimera});
  }
}

TEST_CASE("pipelines of many updates a run end with the same bits in all replicas", "[sim]") {
  for (const PipelineKind kind : {PipelineKind::pipedream, PipelineKind::two_bw}) {
    for (const std::size_t peers : {2, 4}) {
      run({.peers = peers, .stages = 2, .micro_batches = 12, .kind = kind, .steps = 8});
    }
  }
}

namespace {

/// Parameters of all replicas of each stage at the end of the task.
std::map<std::size_t, std::vector<std::vector<float>>> ends_of(const PipelineTask& task,
                                                               std::uint64_t mix_every = 1) {
  Simulator::Options options = task.options();
  options.node.pipeline.mix_every = mix_every;
  Simulator world(options, task.workloads());
  PipelineInvariants invariants;
  StageRecord record(task.steps);
  world.watch(invariants);
  world.watch(record);
  world.run(Time(10min));
  INFO(record.story << (invariants.violation() ? invariants.violation()->what : ""));
  CHECK_FALSE(invariants.violation());
  REQUIRE(record.newest == task.steps);
  return record.stages;
}

/// The distances of replicas from the first replica of their stage, summed over all parameters.
double spread_of(const PipelineTask& task, std::uint64_t mix_every) {
  double sum = 0;
  for (const auto& [stage, replicas] : ends_of(task, mix_every)) {
    REQUIRE(replicas.size() == task.peers / task.stages);
    for (const auto& replica : replicas) {
      for (std::size_t i = 0; i < replica.size(); ++i) {
        sum += std::abs(replica[i] - replicas.front()[i]);
      }
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("replicas that mix stay together and those that do not drift apart", "[sim]") {
  PipelineTask task{.peers = 8,
                    .stages = 2,
                    .micro_batches = 8,
                    .consensus = StageConsensus::gossip,
                    .steps = 60};
  const double apart = spread_of(task, 1000);
  const auto check_together = [&] {
    INFO(to_string(task.kind) << ", " << to_string(task.rule.topology.kind) << ", "
                              << to_string(task.rule.partners));
    const double together = spread_of(task, 1);
    CHECK(together > 0);
    CHECK(together < apart / 3);
  };
  check_together();
  task.consensus = StageConsensus::mixing;
  for (const TopologyKind topology :
       {TopologyKind::ring, TopologyKind::complete, TopologyKind::hypercube}) {
    task.rule = {.topology = {.kind = topology}};
    check_together();
  }
  for (const Partners partners : {Partners::pull, Partners::push, Partners::pairs}) {
    task.rule = {.topology = {.kind = TopologyKind::complete}, .partners = partners};
    check_together();
  }
  task.rule = {.codec = {.kind = CodecKind::fp16}, .guard = {.kind = GuardKind::self_centred_clip}};
  check_together();
  for (const Codec& codec : {Codec::bf16, Codec::qsgd8}) {
    task.rule = {.codec = codec};
    check_together();
  }
  task.rule = {.fragments = 3};
  task.kind = PipelineKind::pipedream;
  check_together();
}

TEST_CASE("two replicas that mix in a ring of two are a pair that averages", "[sim]") {
  // Gossip and mixing both compute x_i + (x_j - x_i) / 2, but add in different orders.
  for (const PipelineKind kind : {PipelineKind::one_f_one_b, PipelineKind::two_bw}) {
    PipelineTask task{.kind = kind, .consensus = StageConsensus::gossip};
    const auto pairs = ends_of(task);
    task.consensus = StageConsensus::mixing;
    const auto rounds = ends_of(task);
    REQUIRE(pairs.size() == 2);
    for (const auto& [stage, replicas] : pairs) {
      for (std::size_t r = 0; r < replicas.size(); ++r) {
        const std::vector<float>& other = rounds.at(stage).at(r);
        REQUIRE(replicas[r].size() == other.size());
        for (std::size_t i = 0; i < other.size(); ++i) {
          REQUIRE(std::abs(replicas[r][i] - other[i]) < 1e-4F * (1 + std::abs(other[i])));
        }
      }
    }
  }
}

TEST_CASE("a death at any moment lets the others go on with every micro-batch counted once",
          "[sim]") {
  for (int moment = 0; moment < 120; ++moment) {
    PipelineTask task{.peers = 4, .stages = 2, .micro_batches = 6, .steps = 60};
    if (moment % 3 == 1) task.router = RouterKind::random;
    if (moment % 3 == 2) task.kind = PipelineKind::zero_bubble;
    if (moment % 5 == 4) task.consensus = StageConsensus::mixing;
    Simulator::Options options = task.options();
    options.seed = static_cast<std::uint64_t>(moment);
    options.scenario.faults = {fault(FaultKind::kill, Duration(2s) + moment * 3ms,
                                     just(static_cast<std::size_t>(moment % 4)))};
    Simulator world(options, task.workloads());
    StageRecord record(task.steps);
    world.watch(record);
    world.run(Time(3min));
    INFO("moment " << moment << "\n" << record.story);
    REQUIRE(record.newest == task.steps);
    REQUIRE(record.facts.of<SumRefused>() == 0);
    REQUIRE(record.stages.size() == task.stages);
    if (task.consensus == StageConsensus::mixing) continue;  // Replicas that mix may differ.
    record.require_equal_replicas();
  }
}

TEST_CASE("a stage that loses all its carriers is restored from the copy of its neighbour",
          "[sim]") {
  int times = 0;  // Number of worlds in which a stage is restored.
  // The peer dies right at a point at which stages are copied, or later.
  for (int moment = 0; moment < 60; ++moment) {
    const PipelineTask task{.peers = 3, .stages = 3, .micro_batches = 6, .steps = 60};
    Simulator::Options options = task.options();
    options.seed = static_cast<std::uint64_t>(moment);
    options.scenario.faults = {fault(FaultKind::kill, Duration(2s) + moment * 7ms,
                                     just(static_cast<std::size_t>(moment % 3)))};
    Simulator world(options, task.workloads());
    StageRecord record(task.steps);
    world.watch(record);
    world.run(Time(3min));
    INFO("moment " << moment << "\n" << record.story);
    REQUIRE(record.newest == task.steps);
    REQUIRE(record.facts.of<StageLost>() == 0);
    REQUIRE(record.facts.of<SumRefused>() == 0);
    times += record.facts.of<RolledBack>() > 0;
    REQUIRE(record.stages.size() == task.stages);
  }
  CHECK(times > 40);
}

TEST_CASE("where every peer carries every stage newcomers leave no states behind", "[sim]") {
  const PipelineTask task{.peers = 3, .stages = 1, .steps = 400};
  Simulator::Options options = task.options();
  for (int i = 0; i < 12; ++i) {
    options.scenario.faults.push_back(fault(FaultKind::restart, (2 + i) * 1s, just(2)));
  }
  Simulator world(options, task.workloads());
  StageRecord record(task.steps);
  world.watch(record);
  world.run(Time(16s));
  INFO(record.story);
  CHECK(record.facts.of<StageAdopted>() == 12);
  for (const PeerNumber peer : {0, 1, 2}) {
    CHECK(world.peer(peer).node->as<PipelineMode>()->copies().size() <= 2);
  }
}

TEST_CASE("the next pass waits at the worker and nothing else ever does", "[sim]") {
  class Queues : public Watcher {
   public:
    void on_effects(const Simulator&, PeerNumber peer, const NodeEffects& effects) override {
      for (const Job& job : effects.jobs) {
        if (++under_way[peer] == 1) continue;
        ++waited;
        most = std::max(most, under_way[peer]);
        const bool is_part = first_of<task::StagePass>(job.tasks) != nullptr ||
                             first_of<task::CopyParameters>(job.tasks) != nullptr;
        passes_only = passes_only && job.tasks.size() == 1 && is_part;
      }
    }
    void on_job_done(const Simulator&, PeerNumber peer, const JobDone&) override {
      --under_way[peer];
      ++done;
    }
    void on_state(const Simulator&, PeerNumber peer, PeerState) override { under_way[peer] = 0; }

    std::map<PeerNumber, int> under_way;
    int most = 0;
    int waited = 0;
    int done = 0;
    bool passes_only = true;
  };
  const PipelineTask task{.peers = 4, .stages = 2, .steps = 60};
  Simulator::Options options = task.options();
  options.scenario.faults = {fault(FaultKind::kill, 2s, just(3))};
  Simulator world(options, task.workloads());
  Queues queues;
  world.watch(queues);
  world.run(Time(3min));
  CHECK(queues.most == 2);
  CHECK(queues.passes_only);
  CHECK(queues.waited > queues.done / 2);
}

TEST_CASE("a peer that leaves hands its stage over and nothing is made twice or taken back",
          "[sim]") {
  int handed_over = 0;
  for (int moment = 0; moment < 60; ++moment) {
    PipelineTask task{.peers = 3, .stages = 3, .micro_batches = 6, .steps = 60};
    if (moment % 4 == 1) task.kind = PipelineKind::pipedream;
    if (moment % 4 == 2) task = {.peers = 5, .stages = 3, .steps = 60};
    if (moment % 4 == 3)
      task = {.peers = 2, .stages = 4, .kind = PipelineKind::chimera, .steps = 60};
    Simulator::Options options = task.options();
    options.seed = static_cast<std::uint64_t>(moment);
    const auto who = static_cast<PeerNumber>(static_cast<std::size_t>(moment) % task.peers);
    options.scenario.links = {every_link({.latency = 2ms})};
    options.scenario.faults = {fault(FaultKind::leave, Duration(2s) + moment * 7ms, just(who))};
    Simulator world(options, task.workloads());
    StageRecord record(task.steps);
    PipelineInvariants invariants;
    world.watch(record);
    world.watch(invariants);
    world.run(Time(5s));
    INFO("moment " << moment << "\n" << record.story);
    // The peer is gone long before its wait for the others would time out.
    REQUIRE(world.peer(who).state == PeerState::ended);
    world.run(Time(3min));
    INFO((invariants.violation() ? invariants.violation()->what : ""));
    REQUIRE_FALSE(invariants.violation());
    REQUIRE(record.newest == task.steps);
    REQUIRE(invariants.operations() == task.steps);
    REQUIRE(invariants.rollbacks() == 0);
    REQUIRE(record.stages.size() == task.stages);
    handed_over += record.facts.of<StageAdopted>() > 0;
  }
  CHECK(handed_over > 30);  // Stages are handed over in 39 of 60 worlds. In the others, the peer
                            // had no stage or another replica of it remained.
}

TEST_CASE("peers that all leave at once wait for nobody", "[sim]") {
  const PipelineTask task{.peers = 4, .stages = 2, .micro_batches = 6, .steps = 1000};
  Simulator::Options options = task.options();
  options.scenario.links = {every_link({.latency = 2ms})};
  options.scenario.faults = {fault(FaultKind::leave, 2s, PeerSet::everyone())};
  Simulator world(options, task.workloads());
  StageRecord record(task.steps);
  world.watch(record);
  world.run(Time(3s));
  INFO(record.story);
  CHECK(world.all_ended());
  CHECK(record.facts.of<StageLost>() == 0);
}

TEST_CASE("one who joins late takes a stage and all go on", "[sim]") {
  const PipelineTask task{.peers = 3, .stages = 2, .micro_batches = 6, .steps = 80};
  Simulator::Options options = task.options();
  options.node.course.wait_for_peers = 2;
  options.scenario.faults = {fault(FaultKind::join, 3s, just(2))};
  Simulator world(options, task.workloads());
  StageRecord record(task.steps);
  world.watch(record);
  world.run(Time(3min));
  INFO(record.story);
  REQUIRE(record.newest == task.steps);
  CHECK(record.facts.of<StageAdopted>() == 1);
  CHECK(record.stages[0].size() + record.stages[1].size() == 3);
}

TEST_CASE("in a chain of one peer each the slow one ends with the smallest stage", "[sim]") {
  for (PeerNumber slow = 0; slow < 3; ++slow) {
    const PipelineTask task{.peers = 3, .stages = 3, .steps = 10000};
    Simulator::Options options = task.options();
    options.node.pipeline.stage_seconds = {0.15, 0.55, 0.3};
    options.scenario.speeds = {{.peers = just(slow), .factor = 0.3}};
    Simulator world(options, task.workloads());
    PipelineInvariants invariants;
    StageRecord record(task.steps);
    world.watch(invariants);
    world.watch(record);
    world.run(Time(20s));
    INFO("peer-" << slow << "\n"
                 << record.story << (invariants.violation() ? invariants.violation()->what : ""));
    CHECK_FALSE(invariants.violation());
    REQUIRE(record.newest > 100);
    CHECK(world.peer(slow).node->as<PipelineMode>()->stages() == std::set<std::uint32_t>{0});
    CHECK(record.facts.of<RolledBack>() == 0);
  }
}

TEST_CASE("peers that a machine's other programs hold up now and then keep their stages", "[sim]") {
  for (std::uint64_t seed = 0; seed < 15; ++seed) {
    const PipelineTask task{.peers = 3, .stages = 3, .steps = 300};
    Simulator::Options options = task.options();
    options.seed = seed;
    options.node.pipeline.stage_seconds = {0.15, 0.55, 0.3};
    // Again and again, a peer stops for as long as a hundred passes take.
    options.scenario.step = 200us;
    options.scenario.faults = {
        {.kind = FaultKind::stop, .at = 5ms, .lasts = 8ms, .every = 16ms, .peers = {.any = 1}}};
    Simulator world(options, task.workloads());
    StageRecord record(task.steps);
    world.watch(record);
    world.run(Time(1min));
    INFO("seed " << seed << "\n" << record.story);
    REQUIRE(record.newest == task.steps);
    CHECK(record.facts.of<StageAdopted>() == 0);
  }
}

TEST_CASE("peers that are alike do not exchange stages to and fro for a wrong estimate", "[sim]") {
  const PipelineTask task{.peers = 2, .stages = 2, .steps = 100000};
  Simulator::Options options = task.options();
  // Each peer looks slower while it carries the second stage.
  options.node.pipeline.stage_seconds = {0.44, 0.56};
  options.stage_seconds = {0.37, 0.63};
  Simulator world(options, task.workloads());
  StageRecord record(task.steps);
  world.watch(record);
  world.run(Time(3min));
  INFO(record.story);
  REQUIRE(record.newest > 1000);
  CHECK(record.facts.of<GenerationBegan>() >= 2 * 4);
  CHECK(record.facts.of<StageAdopted>() <= 2);
}

TEST_CASE("pipelines in drawn worlds count every micro-batch once and go on after the heal",
          "[sim]") {
  std::uint64_t operations = 0;
  int without = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const Verdict verdict = run_world(as_pipeline(draw_world(seed)));
    INFO("seed " << seed);
    INFO(text_of(verdict));
    CHECK_FALSE(verdict.violation);
    operations += verdict.runs;
    without += verdict.stage_lost ? 1 : 0;
  }
  CHECK(operations > 10000);
  CHECK(without < 20);
}

TEST_CASE("who has no part in a run makes its operations one by one all the same", "[sim]") {
  // The only micro-batch uses one replica of each stage. The other replicas must not wait for
  // anything.
  PipelineTask task{.peers = 6,
                    .stages = 2,
                    .micro_batches = 1,
                    .consensus = StageConsensus::gossip,
                    .steps = 40};
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Simulator::Options options = task.options();
    options.seed = seed;
    options.node.pipeline.mix_every = 1000;
    options.scenario.links = {every_link({.latency = 2ms, .jitter = 40ms})};
    Simulator world(options, task.workloads());
    PipelineInvariants invariants;
    StageRecord record(task.steps);
    world.watch(invariants);
    world.watch(record);
    world.run(Time(5min));
    INFO("seed " << seed << (invariants.violation() ? ": " + invariants.violation()->what : ""));
    CHECK_FALSE(invariants.violation());
    CHECK(record.newest == task.steps);
  }
}

TEST_CASE("a drawn world is the same again when it is read from its text", "[sim]") {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("gv-world-" + std::to_string(::getpid()));
  std::map<ModeKind, int> worlds;
  for (std::uint64_t seed = 1; seed < 60; ++seed) {
    const DrawnWorld world = draw_world(seed);
    if (++worlds[world.config.run.mode] > 8) continue;
    std::ofstream(file) << to_toml(world);
    const CheckedWorld read = read_world(file.string(), seed);
    INFO("seed " << seed << (read.problems.empty() ? "" : to_string(read.problems.front())));
    REQUIRE(read.problems.empty());
    const Verdict again = run_world(read.world);
    const Verdict first = run_world(world);
    CHECK(again.events == first.events);
    // In rounds of mixing, the hashes of some worlds differ although every line of their traces is
    // the same.
    if (world.config.run.mode != ModeKind::mixing) CHECK(again.trace_hash == first.trace_hash);
  }
  CHECK(worlds.size() == 4);
  std::filesystem::remove(file);
}

namespace {

/// Watches a point of a pipeline run, from the first second on. After `skip` visits by any peers,
/// records the time of the next visit and the peer that makes it.
class AtPipelinePoint : public Watcher {
 public:
  AtPipelinePoint(std::string point, int skip) : point_(std::move(point)), left_(skip) {}

  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override {
    const bool is_there = is_at_pipeline_point(point_, *world.peer(peer).node, effects);
    if (!is_there || world.now() < Time(1s) || left_-- != 0) return;
    when = world.now();
    who = peer;
  }

  Time when{};
  PeerNumber who = 0;

 private:
  std::string point_;
  int left_;
};

}  // namespace

TEST_CASE("a death at any point of a run leaves the others with every stage", "[sim]") {
  for (const std::string& point : pipeline_points) {
    for (int skip = 0; skip < 6; ++skip) {
      PipelineTask task{.peers = 5, .stages = 3, .micro_batches = 6, .steps = 80};
      Simulator::Options options = task.options();
      options.seed = static_cast<std::uint64_t>(skip);
      // The newcomer causes a new generation.
      options.node.course.wait_for_peers = 4;
      options.scenario.faults = {fault(FaultKind::join, 1500ms, just(4))};
      AtPipelinePoint point_of(point, skip);
      {
        Simulator first(options, task.workloads());
        first.watch(point_of);
        first.run(Time(3min));
      }
      INFO(point << ", " << skip);
      REQUIRE(point_of.when > Time(1s));
      options.scenario.faults.push_back(
          fault(FaultKind::kill, point_of.when.time_since_epoch(), just(point_of.who)));
      Simulator world(options, task.workloads());
      StageRecord record(task.steps);
      world.watch(record);
      world.run(Time(3min));
      INFO("kills peer-" << point_of.who << "\n" << record.story);
      REQUIRE(record.newest == task.steps);
      REQUIRE(record.facts.of<SumRefused>() == 0);
      REQUIRE(record.facts.of<StageLost>() == 0);
      REQUIRE(record.stages.size() == task.stages);
      record.require_equal_replicas();
    }
  }
}

namespace {

/// The stages of a hostile peer. All values that they pass on or sum get the same magnitude, with
/// either sign.
class HugeStages final : public Replica {
 public:
  HugeStages(std::unique_ptr<StageLearner> learner, float value)
      : inner_(std::move(learner)), value_(value) {}

  JobDone run(Job job) override {
    JobDone done = inner_.run(std::move(job));
    for (const Job::Task& task : done.job.tasks) {
      const auto* pass = std::get_if<task::StagePass>(&task);
      if (pass == nullptr) continue;
      if (pass->out) spoil(*pass->out);
      const std::size_t size = inner_.learner().layout(pass->what.stage).size();
      if (pass->sum) spoil(std::span(*pass->sum).first(size));
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
  void spoil(std::span<float> values) {
    for (float& value : values) value = value_ = -value_;
  }

  StageReplica inner_;
  float value_;
};

/// Runs four peers until all but the first, which is hostile, have made the task's steps.
StageRecord beside_huge(const PipelineTask& task, float value) {
  Simulator world(task.options(), [&](PeerNumber peer) -> std::unique_ptr<Replica> {
    if (peer == 0) return std::make_unique<HugeStages>(task.learner(peer), value);
    return std::make_unique<StageReplica>(task.learner(peer));
  });
  StageRecord record(task.steps);
  world.watch(record);
  world.run(Time(5min));
  INFO(record.story);
  for (PeerNumber peer = 1; peer < task.peers; ++peer) {
    CHECK(world.peer(peer).work->step() == task.steps);
    for (std::size_t stage = 0; stage < task.stages; ++stage) {
      CHECK(is_finite(world.peer(peer).work->stage(stage)));
    }
  }
  return record;
}

}  // namespace

TEST_CASE("values that are just allowed end no sound peer of a pipeline and name none", "[sim]") {
  for (const StageConsensus consensus : {StageConsensus::allreduce, StageConsensus::gossip}) {
    const StageRecord record = beside_huge({.consensus = consensus}, largest_gradient);
    INFO(record.story);
    CHECK(record.facts.of<SumRefused>() == 0);
    CHECK(record.facts.of<ModelHeld>() > 0);
  }
}

TEST_CASE("values that no sound peer passes on name their sender in a pipeline", "[sim]") {
  const StageRecord record = beside_huge({}, 16 * largest_gradient);
  INFO(record.story);
  CHECK(record.facts.of<SumRefused>() > 0);
}

}  // namespace gv
