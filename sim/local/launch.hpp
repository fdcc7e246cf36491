// Many peers on one machine as real processes: keys, start, live table, summary.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace gv {

struct LaunchOptions {
  std::size_t peers = 4;
  std::string config;             ///< A TOML file; empty: the built-in default.
  std::filesystem::path folder;   ///< The run's folder; empty: a new one below the config's.
  std::filesystem::path program;  ///< The grapevine binary.
  bool resume = false;            ///< Go on with the run found in `folder`.
  std::string faults;             ///< A file of faults; empty: the config's own, if it has any.
};

/// Starts the peers, shows their state, waits for them and evaluates their models. Returns 0 when
/// every peer ended cleanly, 1 when one did not, 2 when the operator has to mend something.
int launch(const LaunchOptions& options);

}  // namespace gv
