// `grapevine sim --swarm N`: many drawn worlds, one after the other, until one fails.
#pragma once

#include <cstdint>
#include <functional>

#include "sim/virtual/draw.hpp"

namespace gv {

struct SwarmOptions {
  std::uint64_t worlds = 100;
  std::uint64_t seed = 1;  ///< Seed of the first world; the others follow.
  bool trace = false;      ///< Every event of every world as a line.
  bool shrink = false;     ///< Print a failing world as small as it gets.
  std::function<DrawnWorld(std::uint64_t seed)> draw = draw_world;
};

/// Exit codes of a swarm.
inline constexpr int swarm_unsafe = 3;   ///< An invariant was broken.
inline constexpr int swarm_stuck = 4;    ///< A liveness invariant failed after the heal.
inline constexpr int swarm_crashed = 5;  ///< The program itself failed.

/// Runs one world and prints its result; returns as run_swarm does.
int check_world(const DrawnWorld& world, bool trace);

/// Runs drawn worlds until one fails or all are done, and prints the result.
int run_swarm(const SwarmOptions& options);

}  // namespace gv
