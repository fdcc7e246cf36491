// Whole scenarios drawn from one number: size, speeds, links, faults and settings.
#pragma once

#include <cstdint>
#include <string>

#include "peer/node.hpp"
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

/// Draws a world. Pure: the same number, the same world.
DrawnWorld draw_world(std::uint64_t seed);

/// The world as a config that `grapevine sim --check` runs, for people and for replays.
std::string to_toml(const DrawnWorld& world);

/// Ready to run.
Simulator::Options simulator_options(const DrawnWorld& world);
MakeWorkload workloads(const DrawnWorld& world);

}  // namespace gv
