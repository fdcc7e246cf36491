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
  std::uint64_t seed = 1;  ///< Seed of the random paces, links, faults and sessions.
  /// Folder for the curves. Empty: a new folder inside the config's run folder.
  std::filesystem::path folder;
  bool trace = false;    ///< Print every event as a line on standard output.
  bool traffic = false;  ///< Count the bytes of small messages by kind.
};

/// A world made from a config. It may be run only if there are no problems.
struct CheckedWorld {
  DrawnWorld world;
  Problems problems;
};
/// Reads a world that is kept for a test. Drops the speeds and links of peers that do not exist,
/// because worlds drawn by earlier versions have some.
CheckedWorld read_world(const std::string& path, std::uint64_t seed);

/// True if the world's text has no problem.
bool is_legal(const DrawnWorld& world);

/// `grapevine sim CONFIG --check`: runs the scenario as `--swarm` runs a drawn world. Checks every
/// invariant, and finally heals all faults. Nothing is trained. Returns 2 for a bad config,
/// otherwise the same codes as run_swarm().
int check_scenario(const SimulateOptions& options);

/// Runs the scenario and prints its progress and a summary. Returns 0 on success, 1 if the machine
/// failed, 2 if the operator has to fix something.
int simulate(const SimulateOptions& options);

}  // namespace gv
