// Reads the files of a run: the config of its peers, and its scenario.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "peer/config/config.hpp"
#include "sim/scenario.hpp"

namespace gv {

/// Config and scenario may be used only if there are no problems.
struct RunFiles {
  Config config;
  Scenario scenario;
  Problems problems;    ///< The problems of both, each once.
  ConfigPlaces places;  ///< The places of settings in the config.
};

/// Reads `config` (empty means the built-in one) and the scenario in it. If `faults` is given, the
/// scenario in that file, which may contain nothing else, replaces it. Everything is checked for
/// `peers` peers, or else scenario.peers, or else run.peers.
RunFiles read_run_files(const std::string& config, const std::string& faults = {},
                        std::optional<std::size_t> peers = {});

/// Reads both from a text instead of a file. `name` stands for the file name in messages.
RunFiles read_run_text(const std::string& text, const std::string& name);

/// Problems of the scenario's neighbours with the config's topology. `path` is the config's name in
/// messages.
Problems neighbours_problems(const RunFiles& files, const std::string& path);

/// Problems of the algorithms to which the scenario switches.
Problems switch_problems(const RunFiles& files, const std::string& path);

}  // namespace gv
