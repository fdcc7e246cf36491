// Turns a drawn world into a simulation: options for its nodes, and stand-ins in place of training.
#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/range.hpp"
#include "peer/config/node_options.hpp"
#include "peer/config/switched_mixing.hpp"
#include "sim/virtual/draw.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "train/learner/group_place.hpp"
#include "train/learner/layout.hpp"

namespace gv {
namespace {

/// The strips of a vector, by slice. Each overlaps its neighbours by one element.
std::vector<Range> strips_of(std::size_t size) {
  std::vector<Range> strips;
  for (std::size_t slice = 0; slice < slices_of_stage; ++slice) {
    const std::size_t begin = size * slice / slices_of_stage;
    const std::size_t end = size * (slice + 1) / slices_of_stage;
    strips.push_back({begin - std::min<std::size_t>(1, begin), std::min(size, end + 1)});
  }
  return strips;
}

}  // namespace

NodeOptions options_of_vectors(const Config& config, const Scenario& scenario) {
  const std::size_t size = scenario.dimension;
  ModelFacts model;
  model.layout.add("x", {size});
  const std::size_t stages =
      config.run.mode == ModeKind::pipeline ? config.pipeline.stage_count() : 0;
  const auto work_of = [&](std::size_t s) {
    return s < scenario.stage_work.size() ? static_cast<double>(scenario.stage_work[s]) : 1;
  };
  double all = 0;
  for (std::size_t s = 0; s < stages; ++s) all += work_of(s);
  for (std::size_t s = 0; s < stages; ++s) {
    const std::size_t passes = s > 0 ? size : 0;
    StageSize stage{.parameters = size, .state = size, .forward = passes, .backward = passes};
    // Every third stage has nothing that a group could share.
    if (config.pipeline.group > 1 && s % 3 != 2) {
      // In half of the worlds, the first stage begins with strips. The length of the second sum is
      // proportional to the group's number of cuts.
      const bool is_dealt = s == 0 && size % 2 == 0;
      stage.forward_sums = {
          is_dealt ? GroupSum{.always = 1, .dealt = strips_of(size)} : GroupSum{.always = size},
          {.at_cut = std::vector<std::size_t>(slices_of_stage, 1 + size / 8)}};
      stage.backward_sums = {{.always = size}};
      const std::size_t slice = 1 + size / 32;
      stage.slices.assign(slices_of_stage, {slice, slice});
      stage.parameters = stage.state = 1 + size / 4;
    }
    model.stages.push_back(std::move(stage));
    model.stage_seconds.push_back(work_of(s) / all);
  }
  const std::uint64_t steps = config.run.steps > 0 ? config.run.steps : endless_steps;
  // Every peer has one sample, so that all shards are equally large. A pipeline's test has a few
  // more micro-batches than a run.
  constexpr std::size_t tests = 11;
  const bool is_pipeline = config.run.mode == ModeKind::pipeline;
  NodeOptions node = node_options(config, model,
                                  {.steps = steps,
                                   .data = 1,
                                   .all_data = config.run.peers,
                                   .test_data = is_pipeline ? tests * config.train.batch : 0});
  PipelineOptions& pipeline = node.pipeline;
  pipeline.segment_elements = std::min<std::size_t>(pipeline.segment_elements, 64 + size / 8);
  return node;
}

Simulator::Options simulator_options(const DrawnWorld& world) {
  Config config = world.config;
  config.run.peers = world.scenario.peers;
  Simulator::Options options{.peers = world.scenario.peers,
                             .seed = world.seed,
                             .scenario = world.scenario,
                             .node = options_of_vectors(config, world.scenario)};
  // Sums have several blocks, but not too many.
  const std::size_t size = world.scenario.dimension;
  const std::size_t segment =
      world.segment_elements > 0 ? world.segment_elements : 256 + size / (size > 60000 ? 24 : 64);
  options.node.allreduce.segment_elements = segment;
  if (auto read = options.node.read_switch) {
    const std::uint64_t steps = options.node.course.steps;
    options.node.read_switch = [read, segment, steps](std::string_view settings) {
      SwitchedMode switched = read(settings);
      switched.allreduce.segment_elements = segment;
      switched.steps = steps;
      return switched;
    };
  }
  return options;
}

namespace {

MakeWorkload plain_workloads(const DrawnWorld& world) {
  const Config& config = world.config;
  if (config.run.mode == ModeKind::pipeline) {
    return [sizes = options_of_vectors(config, world.scenario).pipeline.stages](std::size_t) {
      return idle_stage_workload(sizes);
    };
  }
  const std::uint64_t seed = config.run.seed;
  const LocalSteps& local = config.allreduce.local;
  if (world.scenario.work == WorkKind::quadratic) {
    const QuadraticSpec spec{.dimension = world.scenario.dimension,
                             .learning_rate = config.train.schedule.learning_rate,
                             .noise = world.scenario.noise,
                             .disagreement = world.scenario.disagreement,
                             .seed = seed};
    return [spec, local](std::size_t peer) { return quadratic_workload(spec, peer, local); };
  }
  // Except in gossip without switches, all peers begin with the same model.
  const bool alike = config.run.mode != ModeKind::gossip || has_switches(world.scenario);
  return [dimension = world.scenario.dimension, seed, alike, local](std::size_t peer) {
    return idle_workload(dimension, seed, peer, alike, local);
  };
}

}  // namespace

MakeWorkload workloads(const DrawnWorld& world) {
  MakeWorkload make = plain_workloads(world);
  const std::optional<MixRule> rule = mixing_rule(world.config);
  if (!rule) return make;
  return [make, rule = *rule, seed = world.config.run.seed](std::size_t peer) {
    std::unique_ptr<Replica> workload = make(peer);
    workload->mix_by(rule, seed);
    return workload;
  };
}

}  // namespace gv
