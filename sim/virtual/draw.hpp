// Whole scenarios drawn from one number: size, speeds, links, faults and settings.
#pragma once

#include <cstdint>
#include <string>

#include "peer/node/node.hpp"
#include "sim/scenario.hpp"
#include "sim/virtual/simulator.hpp"

namespace gv {

/// The world of one seed.
struct DrawnWorld {
  std::uint64_t seed = 0;
  Scenario scenario;  ///< `until` is the end of the phase with faults.
  /// Options of every peer; the layout is one vector of scenario.dimension numbers.
  NodeOptions node;
  double learning_rate = 0.05;
};

/// Draws a world. Pure: equal seeds give equal worlds. A quarter of all worlds use mode
/// `allreduce`, a quarter of the others `pipeline`, and a quarter of those then left `mixing`.
DrawnWorld draw_world(std::uint64_t seed);

/// The same world with a pipeline drawn beside it: stages, schedule, router, chains. It has fewer
/// peers and longer steps, so that it has about as many events as one in mode `allreduce`. A world
/// with a pipeline stays as it is.
DrawnWorld as_pipeline(DrawnWorld world);

/// The same world in mode `mixing`, with a legal rule drawn beside it.
DrawnWorld as_mixing(DrawnWorld world);

/// Cuts sums of `dimension` elements into several blocks, but not too many.
void cut_into_segments(AllReduceOptions& allreduce, std::size_t dimension);

/// Makes `stages` stages of scenario.dimension parameters each. They cost only time: relative times
/// from scenario.stage_work, or all the same.
void make_idle_stages(PipelineOptions& pipeline, std::size_t stages, const Scenario& scenario);

/// The world as a config for `grapevine sim --check`, for people and for replays.
std::string to_toml(const DrawnWorld& world);

/// Options for a Simulator that runs the world.
Simulator::Options simulator_options(const DrawnWorld& world);
MakeWorkload workloads(const DrawnWorld& world);

}  // namespace gv
