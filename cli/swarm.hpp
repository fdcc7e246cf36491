// `grapevine sim --swarm N`: many drawn worlds, one after the other, until one fails.
#pragma once

#include <cstdint>
#include <functional>

#include "sim/virtual/draw.hpp"

namespace gv {

struct SwarmOptions {
  std::uint64_t worlds = 100;
  std::uint64_t seed = 1;  ///< Of the first; the others follow.
  bool trace = false;      ///< Every event of every world as a line.
  bool shrink = false;     ///< Print a failing world as small as it gets.
  std::function<DrawnWorld(std::uint64_t seed)> draw = draw_world;
};

/// Exit codes of a swarm.
inline constexpr int swarm_unsafe = 3;   ///< An invariant was broken.
inline constexpr int swarm_stuck = 4;    ///< Something good did not happen after the heal.
inline constexpr int swarm_crashed = 5;  ///< The program itself gave up.

/// Runs one world and says how it went; returns as run_swarm does.
int check_world(const DrawnWorld& world, bool trace);

/// Runs drawn worlds until one fails or all are done, and says how it went on standard output.
int run_swarm(const SwarmOptions& options);

}  // namespace gv
