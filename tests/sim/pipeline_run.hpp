// A small training run in a pipeline of virtual peers.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "peer/config/node_options.hpp"
#include "peer/modes/pipeline.hpp"
#include "peer/node/facts.hpp"
#include "peer/node/stage_replica.hpp"
#include "sim/virtual/finale_invariants.hpp"
#include "sim/virtual/pipeline_invariants.hpp"
#include "sim/virtual/simulator.hpp"
#include "tests/sim/worlds.hpp"
#include "train/built_in_learner.hpp"
#include "train/data/generated.hpp"

namespace gv {

/// Peers that all have the same shard, and a model in stages.
struct PipelineTask {
  std::size_t peers = 4;
  std::size_t stages = 2;
  std::size_t micro_batches = 6;
  PipelineKind kind = PipelineKind::one_f_one_b;
  RouterKind router = RouterKind::fixed;
  StageConsensus consensus = StageConsensus::allreduce;
  std::uint64_t steps = 20;
  std::uint64_t copy_every = 4;
  MixRule rule = {};
  std::size_t group = 1;         ///< Members of a group. Above 1, layers are wide enough to share.
  bool is_first_narrow = false;  ///< True if the first of two stages is too narrow to be shared.
  std::size_t side = 0;          ///< Side length of images, which groups share by rows; 0: none.
  bool has_norms = false;        ///< True if images go through batch norms and dropout as well.
  double target = 0;             ///< The accuracy that ends the run; 0 if there is no target.
  std::uint64_t test_every = 1;  ///< Number of runs from one test to the next.

  std::shared_ptr<const DataSet> shard() const {
    return std::make_shared<const DataSet>(generate_blobs(data(240), 0));
  }
  /// Samples for tests. They do not fill a whole number of micro-batches.
  std::shared_ptr<const DataSet> test_data() const {
    return std::make_shared<const DataSet>(generate_blobs(data(54), 1));
  }
  GeneratedSpec data(std::size_t samples) const {
    return {.samples = samples,
            .features = side > 0 ? side * side : 10,
            .side = side,
            .classes = 3,
            .seed = 3};
  }

  /// Two convolutions with a pool between them. If there is a second stage, the second convolution
  /// begins it.
  ModelSpec images() const {
    const auto convolution = [](std::size_t units, std::size_t kernel) {
      return LayerSpec{.kind = LayerKind::conv2d,
                       .units = units,
                       .kernel = kernel,
                       .padding = kernel / 2,
                       .split = LayerSplit::rows};
    };
    ModelSpec model;
    model.layers = {
        convolution(4, 3), {.kind = LayerKind::relu}, {.kind = LayerKind::max_pool, .kernel = 2},
        convolution(6, 5), {.kind = LayerKind::relu}, {.kind = LayerKind::dense, .units = 3}};
    if (!has_norms) return model;
    for (const std::ptrdiff_t at : {4, 1}) {
      model.layers.insert(model.layers.begin() + at, {.kind = LayerKind::batch_norm});
    }
    model.layers.insert(model.layers.begin() + 3, {.kind = LayerKind::dropout, .rate = 0.2});
    return model;
  }

  StagesSpec spec(std::size_t peer) const {
    const bool is_wide = group > 1;
    const ModelSpec wide =
        is_first_narrow ? mlp({24, 9, 40, 64, 32}, 3) : mlp({64, 48, 40, 64, 32}, 3);
    const ModelSpec model = side > 0 ? images() : is_wide ? wide : mlp({24, 9, 16, 5}, 3);
    StagesSpec spec{.trainer = {.model = model,
                                .optimizer = {.kind = OptimizerKind::nesterov},
                                .schedule = {.learning_rate = 0.05},
                                .batch = 4,
                                .steps = steps,
                                .seed = 9,
                                .peer = peer},
                    .ends = {},
                    .keeps_versions = !is_synchronous(kind),
                    .slices = is_wide ? slices_of_stage : 0};
    const std::size_t layers = has_norms ? 5 : side > 0 ? 3 : is_wide ? 4 : 2;
    for (std::size_t s = 1; s < stages; ++s) spec.ends.push_back(layers * s);
    spec.ends.push_back(model.layers.size());
    return spec;
  }

  std::unique_ptr<StageLearner> learner(std::size_t peer) const {
    return built_in_stage_learner(spec(peer), shard(), test_data());
  }

  /// A virtual world of these peers on perfect links.
  Simulator::Options options() const {
    const auto first = learner(0);
    Simulator::Options options = small_world(peers, 11);
    options.node.mode = ModeKind::pipeline;
    options.node.course.steps = steps;
    options.node.course.wait_for_peers = peers;
    PipelineOptions& pipeline = options.node.pipeline;
    pipeline.kind = kind;
    pipeline.router = router;
    pipeline.consensus = consensus;
    pipeline.rule = rule;
    pipeline.micro_batches = micro_batches;
    pipeline.micro_batch = 4;
    if (kind == PipelineKind::two_bw) pipeline.accumulate = 3;
    pipeline.copy_every = copy_every;
    pipeline.group = group;
    pipeline.segment_elements = 50;
    if (target > 0) {
      const std::uint64_t run = 4 * micro_batches;
      pipeline.test_samples = test_data()->size();
      options.node.course.work = {.budget = steps * run,
                                  .batch = 4,
                                  .data = 240,
                                  .all_data = 240 * peers,
                                  .weigh_max = 1,
                                  .target = {.value = target, .every = test_every * run}};
    }
    pipeline.stages = facts_of(*first, spec(0).trainer.optimizer).stages;
    pipeline.stage_seconds.assign(stages, 1.0 / static_cast<double>(stages));
    return options;
  }

  MakeWorkload workloads() const {
    return [this, run_seed = options().node.course.run_seed](std::size_t peer) {
      auto workload = std::make_unique<StageReplica>(learner(peer));
      workload->mix_by(rule, run_seed);
      return workload;
    };
  }
};

/// Runs a pipeline, with the invariants of pipelines and of common ends, until every peer has
/// ended. The world must not run any further, because its watchers are gone.
inline void run_to_the_end(Simulator& world, Time limit) {
  FinaleInvariants ends;
  PipelineInvariants always;
  world.watch(ends);
  world.watch(always);
  world.run(limit);
  if (ends.violation()) UNSCOPED_INFO(ends.violation()->what);
  if (always.violation()) UNSCOPED_INFO(always.violation()->what);
  REQUIRE_FALSE(ends.violation());
  REQUIRE_FALSE(always.violation());
  REQUIRE(world.all_ended());
}

/// Records the events. At one step, it also records the parameters that each carrier of a part of a
/// stage has for that part.
class StageRecord : public Watcher {
 public:
  explicit StageRecord(std::uint64_t step) : step_(step) {}

  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override {
    newest = std::max(newest, done.step);
    if (done.step != step_ || first_of<task::EndRun>(done.job.tasks) == nullptr) return;
    for (const std::uint32_t part : world.peer(peer).node->as<PipelineMode>()->held_parts()) {
      std::vector<float> own = world.peer(peer).work->part(part);
      if (!own.empty()) stages[part].push_back(std::move(own));
    }
  }

  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override {
    for (const Fact& fact : effects.facts) {
      this->facts.add(fact);
      const FactText text = describe(fact);
      story += std::to_string(seconds(world.now().time_since_epoch())) + " peer-" +
               std::to_string(peer) + " " + std::string(text.info.name) + " " + text.detail;
      for (const auto& [name, value] : text.numbers) {
        story += " " + std::string(name) + "=" + std::to_string(value);
      }
      story += "\n";
    }
  }

  /// Requires all carriers of a part to have the same bits.
  void require_equal_replicas() const {
    for (const auto& [stage, replicas] : stages) {
      for (const auto& replica : replicas) REQUIRE(replica == replicas.front());
    }
  }

  std::map<std::size_t, std::vector<std::vector<float>>> stages;  ///< Keyed by part, stages first.
  std::uint64_t newest = 0;
  FactCounts facts;
  std::string story;

 private:
  std::uint64_t step_;
};

}  // namespace gv
