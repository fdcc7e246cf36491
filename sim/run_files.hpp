// Reads the files of a run: the config of its peers, and its scenario.
#pragma once

#include <cstddef>
#include <string>

#include "peer/config/config.hpp"
#include "sim/scenario.hpp"

namespace gv {

/// Use the config and scenario only when there are no problems.
struct RunFiles {
  Config config;
  Scenario scenario;
  Problems problems;  ///< Problems of both, each once.
};

/// Reads `config` (empty: the built-in one) with the scenario in it. The scenario in `faults`, a
/// file with nothing else, replaces it unless that is empty.
RunFiles read_run_files(const std::string& config, const std::string& faults = {});

/// Problems of the config's topology with `peers` peers, which may differ from the config's own
/// run.peers, and of the scenario's neighbours. `path` names the config.
Problems topology_problems(const RunFiles& files, std::size_t peers, const std::string& path);

/// Problems of the algorithms that a scenario with `peers` peers switches to.
Problems switch_problems(const RunFiles& files, std::size_t peers, const std::string& path);

}  // namespace gv
