// `grapevine sim CONFIG`: one virtual run with its curves and its summary.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "peer/config/toml.hpp"
#include "sim/virtual/draw.hpp"

namespace gv {

struct SimulateOptions {
  std::string config;      ///< A TOML file. Empty means the built-in default.
  std::uint64_t seed = 1;  ///< Seed of the world: paces, links, faults, sessions.
  /// Folder for the curves. Empty means a new one below the config's.
  std::filesystem::path folder;
  bool trace = false;    ///< Print every event as a line on standard output.
  bool traffic = false;  ///< Count bytes of small messages by kind.
};

/// A config as a world of a swarm. It may be run only if there are no problems.
struct CheckedWorld {
  DrawnWorld world;
  Problems problems;
};
CheckedWorld read_world(const std::string& path, std::uint64_t seed);

/// True if read_world() finds no problem in the world's text.
bool is_legal(const DrawnWorld& world);

/// `grapevine sim CONFIG --check`: runs the scenario as one world of a swarm, checks every
/// invariant, and heals the world at the end. Nothing is trained. Returns 2 for a bad config,
/// otherwise the same as run_swarm().
int check_scenario(const SimulateOptions& options);

/// Runs the scenario and prints progress and summary. Returns 0 on success, 1 if the machine
/// failed, 2 if the operator has to fix something.
int simulate(const SimulateOptions& options);

}  // namespace gv
