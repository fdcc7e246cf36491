// Whole scenarios drawn from one number: size, speeds, links, faults and settings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "peer/config/config.hpp"
#include "peer/modes/modes.hpp"
#include "sim/scenario.hpp"
#include "sim/virtual/simulator.hpp"

namespace gv {

/// The step budget of peers that train until the world ends.
inline constexpr std::uint64_t endless_steps = std::uint64_t{1} << 40;

/// The settings from which drawing starts. Peers save only at the end.
Config settings_of_worlds();

/// The world of one seed.
struct DrawnWorld {
  std::uint64_t seed = 0;
  Scenario scenario;                     ///< `until` is the end of the phase with faults.
  Config config = settings_of_worlds();  ///< The config of all peers. `run.steps` = 0: endless.
  /// Floats in a block of a sum; 0: chosen so that sums have several blocks, but not too many.
  std::size_t segment_elements = 0;
};

/// Draws a world. Pure: equal seeds give equal worlds. A quarter of all worlds use mode
/// `allreduce`, a quarter of the others `pipeline`, and a quarter of the rest `mixing`. A quarter
/// of the worlds with at least four peers have hostile peers. In mode `gossip`, pairs have memories
/// in a quarter of the worlds, and in a fifth peers join by tickets. A tenth of the worlds
/// switch to other modes.
DrawnWorld draw_world(std::uint64_t seed);

/// A kind of worlds, and what turns a drawn world into one of them.
struct WorldKind {
  std::string_view name;
  DrawnWorld (*turn)(DrawnWorld world);
};

/// "hostile", "mixing", "pipeline", "switching" and "tickets".
std::span<const WorldKind> world_kinds();

/// The world of the seed, turned into one of each kind in this order. Each must be in
/// world_kinds(). A world that cannot be of a kind stays as it is.
DrawnWorld draw_world(std::uint64_t seed, const std::vector<std::string>& kinds);

/// Returns the world with some of its peers hostile, fewer than a third. A world of fewer than four
/// peers gets none.
DrawnWorld as_hostile(DrawnWorld world);

/// Returns the world with a drawn pipeline: stages, schedule, router, chains. It has fewer peers
/// and longer steps, so that it has about as many events as one in mode `allreduce`. A world with a
/// pipeline is returned unchanged.
DrawnWorld as_pipeline(DrawnWorld world);

/// Returns the world in mode `mixing`, with a drawn legal rule.
DrawnWorld as_mixing(DrawnWorld world);

/// Returns the world in mode `gossip` with peers that join by tickets. Some of these are revoked,
/// and the first may leave for good. Worlds in other modes, with fewer than four peers or with
/// tickets are returned unchanged.
DrawnWorld as_tickets(DrawnWorld world);

/// Returns the world with at most three switches to other modes during the run. Pipelines and
/// worlds with tickets or switches are returned unchanged.
DrawnWorld as_switching(DrawnWorld world);

/// Options for peers whose model is a vector of scenario.dimension numbers. In a pipeline each
/// stage is such a vector and only costs time, with relative times from scenario.stage_work, or all
/// equal.
NodeOptions options_of_vectors(const Config& config, const Scenario& scenario);

/// The world as a config for `grapevine sim --check`, to read and to replay.
std::string to_toml(const DrawnWorld& world);

/// Options for a Simulator that runs the world.
Simulator::Options simulator_options(const DrawnWorld& world);
MakeWorkload workloads(const DrawnWorld& world);

}  // namespace gv
