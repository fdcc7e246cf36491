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
  Problems problems;    ///< The problems of config and scenario, without repetitions.
  ConfigPlaces places;  ///< The places of settings in the config.
};

/// Reads the file `config` (empty means the built-in config) and the scenario in it. The file
/// `faults`, if given, must contain only a scenario, which replaces the scenario in `config`.
/// Checks everything for `peers` peers or, if that is unset, for scenario.peers, or else for
/// run.peers.
RunFiles read_run_files(const std::string& config, const std::string& faults = {},
                        std::optional<std::size_t> peers = {});

/// Reads config and scenario from a text. `name` is used as the file name in messages.
RunFiles read_run_text(const std::string& text, const std::string& name);

/// Problems if the scenario's allow-lists do not fit the config's topology. `path` is the config's
/// name in messages.
Problems neighbours_problems(const RunFiles& files, const std::string& path);

/// Problems with the algorithms to which the scenario switches.
Problems switch_problems(const RunFiles& files, const std::string& path);

}  // namespace gv
