// Whole scenarios drawn from one number: size, speeds, links, faults and settings.
#pragma once

#include <cstdint>
#include <string>

#include "peer/node/node.hpp"
#include "sim/scenario.hpp"
#include "sim/virtual/simulator.hpp"

namespace gv {

/// What a seed stands for.
struct DrawnWorld {
  std::uint64_t seed = 0;
  Scenario scenario;   ///< `until` is the end of the phase with faults.
  Node::Options node;  ///< Its layout is one vector of scenario.dimension numbers.
  double learning_rate = 0.05;
};

/// Draws a world. Pure: the same number, the same world. A quarter of all work in lockstep, a
/// quarter of the others as a pipeline, a quarter of those that are left in rounds.
DrawnWorld draw_world(std::uint64_t seed);

/// The same world with a pipeline, drawn beside it: stages, schedule, router, chains. Fewer peers,
/// and steps that are longer, so that it has about as many events as one in lockstep. Of one that
/// has a pipeline already it is that one.
DrawnWorld as_pipeline(DrawnWorld world);

/// The same world in rounds of mixing by a legal rule that is drawn beside it.
DrawnWorld as_mixing(DrawnWorld world);

/// Sums of so many elements go in several blocks, but not in too many.
void cut_into_segments(AllReduceOptions& allreduce, std::size_t dimension);

/// Makes so many stages of scenario.dimension parameters each, which cost nothing but time: what
/// scenario.stage_work says, or all the same.
void make_idle_stages(PipelineOptions& pipeline, std::size_t stages, const Scenario& scenario);

/// The world as a config that `grapevine sim --check` runs, for people and for replays.
std::string to_toml(const DrawnWorld& world);

/// Ready to run.
Simulator::Options simulator_options(const DrawnWorld& world);
MakeWorkload workloads(const DrawnWorld& world);

}  // namespace gv
