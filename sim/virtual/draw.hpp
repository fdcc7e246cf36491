// Draws complete worlds from one number: size, speeds, links, faults and settings.
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

/// The settings from which drawing starts. With them, peers save a checkpoint only at the end.
Config settings_of_worlds();

/// The world of one seed.
struct DrawnWorld {
  std::uint64_t seed = 0;
  Scenario scenario;                     ///< `until` is the end of the phase with faults.
  Config config = settings_of_worlds();  ///< All peers' config. 0 in `run.steps` means endless.
  /// Floats in a block of a sum. If 0, the number is chosen so that sums have several blocks, but
  /// not too many.
  std::size_t segment_elements = 0;
};

/// Draws a world. Equal seeds give equal worlds. A quarter of all worlds use mode `allreduce`, a
/// quarter of the others `pipeline`, and a quarter of the rest `mixing`. A quarter of the worlds
/// with at least four peers have hostile peers. In mode `gossip`, pairs remember models in a
/// quarter of the worlds, and peers join by tickets in a fifth. A tenth of the worlds switch to
/// other modes.
DrawnWorld draw_world(std::uint64_t seed);

/// A kind of world, and the function that turns a drawn world into one of that kind.
struct WorldKind {
  std::string_view name;
  DrawnWorld (*turn)(DrawnWorld world);
};

/// The kinds "hostile", "mixing", "pipeline", "switching" and "tickets".
std::span<const WorldKind> world_kinds();

/// The world of the seed, turned into each of `kinds` in this order. Each kind must be in
/// world_kinds(). Kinds that do not fit the world do not change it.
DrawnWorld draw_world(std::uint64_t seed, const std::vector<std::string>& kinds);

/// Returns the world with one or more hostile peers, but fewer than a third of all. A world with
/// fewer than four peers gets none.
DrawnWorld as_hostile(DrawnWorld world);

/// Returns the world with a drawn pipeline: stages, schedule, router, consensus. It has fewer peers
/// and longer steps, so that it has about as many events as a world in mode `allreduce`. A world
/// with a pipeline is returned unchanged.
DrawnWorld as_pipeline(DrawnWorld world);

/// Returns the world in mode `mixing`, with a drawn legal rule.
DrawnWorld as_mixing(DrawnWorld world);

/// Returns the world with peers that join by tickets, if it is in mode `gossip`. Some peers may be
/// revoked, and the first peer may leave for good. Worlds in other modes, with fewer than four
/// peers, or with tickets are returned unchanged.
DrawnWorld as_tickets(DrawnWorld world);

/// Returns the world with at most three switches to other modes during the run. Pipelines and
/// worlds with tickets or switches are returned unchanged.
DrawnWorld as_switching(DrawnWorld world);

/// Options for peers whose model is a vector of scenario.dimension numbers. In a pipeline, each
/// stage is such a vector, and its passes only take time: in proportion to scenario.stage_work or,
/// if stage_work is empty, equally long in all stages.
NodeOptions options_of_vectors(const Config& config, const Scenario& scenario);

/// The world as a config, for people to read and for `grapevine sim --check` to replay.
std::string to_toml(const DrawnWorld& world);

/// Options for a Simulator that runs the world.
Simulator::Options simulator_options(const DrawnWorld& world);
MakeWorkload workloads(const DrawnWorld& world);

}  // namespace gv
