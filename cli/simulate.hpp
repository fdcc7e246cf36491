// `grapevine sim CONFIG`: one virtual run with its curves and its summary.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "peer/config/toml.hpp"
#include "sim/virtual/draw.hpp"

namespace gv {

struct SimulateOptions {
  std::string config;            ///< A TOML file; empty: the built-in default.
  std::uint64_t seed = 1;        ///< Seed of the world: paces, links, faults, sessions.
  std::filesystem::path folder;  ///< Curves go here; empty: a new one below the config's.
  bool trace = false;            ///< Every event as a line on standard output.
};

/// A config as a world of a swarm; only to be run without problems.
struct CheckedWorld {
  DrawnWorld world;
  Problems problems;
};
CheckedWorld read_world(const std::string& path, std::uint64_t seed);

/// `grapevine sim CONFIG --check`: the scenario as one world of a swarm, with every invariant,
/// healed at the end. Nothing is trained for real. Returns as run_swarm does, or 2.
int check_scenario(const SimulateOptions& options);

/// Runs the scenario and prints progress and summary. Returns 0, 1 when the machine failed it, 2
/// when the operator has to mend something.
int simulate(const SimulateOptions& options);

}  // namespace gv
