// What the files of a run say: the config of its peers, and what they are put through.
#pragma once

#include <cstddef>
#include <string>

#include "peer/config/config.hpp"
#include "sim/scenario.hpp"

namespace gv {

/// Only to be used when there are no problems.
struct RunFiles {
  Config config;
  Scenario scenario;
  Problems problems;  ///< Of both, each said once.
};

/// Reads `config`, or takes the built-in one if that is empty, with the scenario in it; that of
/// `faults`, a file that must have one and nothing else, counts in its place unless that is empty.
RunFiles read_run_files(const std::string& config, const std::string& faults = {});

/// What is wrong with the config's topology for so many peers, who may count differently from the
/// config's own run.peers, and with the scenario's neighbours. `path` names the config.
Problems topology_problems(const RunFiles& files, std::size_t peers, const std::string& path);

/// What is wrong with the algorithms that a scenario has so many peers switch to.
Problems switch_problems(const RunFiles& files, std::size_t peers, const std::string& path);

}  // namespace gv
