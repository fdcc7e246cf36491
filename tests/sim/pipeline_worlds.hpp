// Drawn worlds whose peers work as a pipeline.
#pragma once

#include <algorithm>
#include <array>

#include "sim/virtual/draw.hpp"

namespace gv {

/// The same world with a pipeline, drawn beside it: other stages, schedules, routers, chains. Fewer
/// peers, and steps that are longer, so that a world has as many events as one in lockstep.
inline DrawnWorld as_pipeline(DrawnWorld world) {
  Rng rng = Rng(world.seed).fork("pipeline");
  world.node.mode = ModeKind::pipeline;
  world.node.course.save_every_steps = 0;
  Scenario& scenario = world.scenario;
  scenario.work = WorkKind::time;
  scenario.dimension = 1 + rng.below(rng.chance(0.1) ? 20000 : 64);
  scenario.peers = std::min<std::size_t>(scenario.peers, 8);
  for (FaultRule& fault : scenario.faults) {
    std::erase_if(fault.peers.ranges,
                  [&](const auto& range) { return range.second >= scenario.peers; });
    std::erase_if(fault.to.ranges,
                  [&](const auto& range) { return range.second >= scenario.peers; });
  }
  std::erase_if(scenario.faults, [](const FaultRule& fault) {
    return !fault.peers.all && fault.peers.ranges.empty() && fault.peers.any == 0;
  });
  PipelineOptions& pipeline = world.node.pipeline;
  const std::size_t stages = 1 + rng.below(4);
  pipeline.kind =
      std::array{PipelineKind::gpipe, PipelineKind::one_f_one_b, PipelineKind::zero_bubble,
                 PipelineKind::pipedream, PipelineKind::two_bw}[rng.below(5)];
  if (stages % 2 == 0 && rng.chance(0.2)) pipeline.kind = PipelineKind::chimera;
  if (is_synchronous(pipeline.kind)) {
    pipeline.router = router_kinds[rng.below(router_kinds.size())];
  }
  if (rng.chance(0.25)) pipeline.consensus = StageConsensus::gossip;
  pipeline.micro_batches = 1 + rng.below(8);
  pipeline.accumulate = stages;
  pipeline.copy_every = 1 + rng.below(10);
  pipeline.segment_elements = 64 + scenario.dimension / 8;
  for (std::size_t s = 0; s < stages; ++s) {
    const std::size_t passes = s > 0 ? scenario.dimension : 0;
    pipeline.stages.push_back({.parameters = scenario.dimension,
                               .state = scenario.dimension,
                               .forward = passes,
                               .backward = passes});
    pipeline.stage_seconds.push_back(0.5 + rng.uniform());
  }
  double all = 0;
  for (const double part : pipeline.stage_seconds) all += part;
  for (double& part : pipeline.stage_seconds) part /= all;
  scenario.step = std::max(scenario.step, from_seconds(0.02 * static_cast<double>(stages)));
  pipeline.ahead = rng.below(3);
  return world;
}

}  // namespace gv
