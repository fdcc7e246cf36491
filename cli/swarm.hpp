// `grapevine sim --swarm N`: runs many randomly drawn worlds one after another until one fails.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/exit_codes.hpp"
#include "sim/virtual/draw.hpp"

namespace gv {

struct SwarmOptions {
  std::uint64_t worlds = 100;
  std::uint64_t seed = 1;  ///< Seed of the first world. Each later world's seed is higher by one.
  bool trace = false;      ///< Print every event of every world as a line.
  bool shrink = false;     ///< Reduce a failing world to its smallest form and print it.
  std::vector<std::string> kinds;  ///< Names from world_kinds(). Every world is changed to be of
                                   ///< all these kinds, where possible.
};

/// Runs the world of the file `config` and prints its result. Returns the same codes as
/// run_swarm().
int check_world(const DrawnWorld& world, const std::string& config, bool trace);

/// Runs randomly drawn worlds until one fails or all are done, and prints the result. Returns 0 or
/// one of the exit codes for drawn worlds.
int run_swarm(const SwarmOptions& options);

}  // namespace gv
