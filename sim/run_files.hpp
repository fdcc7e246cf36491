// Reads the files of a run: the config of its peers, and its scenario.
#pragma once

#include <cstddef>
#include <string>

#include "peer/config/config.hpp"
#include "sim/scenario.hpp"

namespace gv {

/// Config and scenario may be used only if there are no problems.
struct RunFiles {
  Config config;
  Scenario scenario;
  Problems problems;  ///< The problems of both, each once.
};

/// Reads `config` (empty means the built-in one) and the scenario in it. If `faults` is given, the
/// scenario in that file, which may contain nothing else, replaces it.
RunFiles read_run_files(const std::string& config, const std::string& faults = {});

/// Problems of the config's topology with `peers` peers, which may differ from the config's
/// run.peers, and of the scenario's neighbours. `path` is the config's name in messages.
Problems topology_problems(const RunFiles& files, std::size_t peers, const std::string& path);

/// Problems of the algorithms to which a scenario with `peers` peers switches.
Problems switch_problems(const RunFiles& files, std::size_t peers, const std::string& path);

}  // namespace gv
