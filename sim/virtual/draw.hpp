// Whole scenarios drawn from one number: size, speeds, links, faults and settings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "peer/config/config.hpp"
#include "peer/modes/modes.hpp"
#include "sim/scenario.hpp"
#include "sim/virtual/simulator.hpp"

namespace gv {

/// The budget of peers that go on until the world ends.
inline constexpr std::uint64_t endless_steps = std::uint64_t{1} << 40;

/// The settings that draws begin with: peers save only at the end.
Config settings_of_worlds();

/// The world of one seed.
struct DrawnWorld {
  std::uint64_t seed = 0;
  Scenario scenario;                     ///< `until` is the end of the phase with faults.
  Config config = settings_of_worlds();  ///< Of every peer. `run.steps` = 0: endless.
  /// Floats of a block of a sum; 0: so few that sums have several blocks, but not too many.
  std::size_t segment_elements = 0;
};

/// Draws a world. Pure: equal seeds give equal worlds. A quarter of all worlds use mode
/// `allreduce`, a quarter of the others `pipeline`, and a quarter of those then left `mixing`.
DrawnWorld draw_world(std::uint64_t seed);

/// The same world with hostile peers among its own, fewer than a third of them. A world of fewer
/// than four peers stays as it is.
DrawnWorld as_hostile(DrawnWorld world);

/// The same world with a pipeline drawn beside it: stages, schedule, router, chains. It has fewer
/// peers and longer steps, so that it has about as many events as one in mode `allreduce`. A world
/// with a pipeline stays as it is.
DrawnWorld as_pipeline(DrawnWorld world);

/// The same world in mode `mixing`, with a legal rule drawn beside it.
DrawnWorld as_mixing(DrawnWorld world);

/// Options of peers whose model is a vector of scenario.dimension numbers. In a pipeline each stage
/// is such a vector and costs only time: relative times from scenario.stage_work, or all the same.
NodeOptions options_of_vectors(const Config& config, const Scenario& scenario);

/// The world as a config for `grapevine sim --check`, for people and for replays.
std::string to_toml(const DrawnWorld& world);

/// Options for a Simulator that runs the world.
Simulator::Options simulator_options(const DrawnWorld& world);
MakeWorkload workloads(const DrawnWorld& world);

}  // namespace gv
