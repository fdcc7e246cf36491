// Runs many peers on one machine as real processes: keys, start, live table, summary.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gv {

struct LaunchOptions {
  std::size_t peers = 4;
  std::string config;             ///< A TOML file. Empty means the built-in default.
  std::filesystem::path folder;   ///< The run's folder. Empty means a new one below the config's.
  std::filesystem::path program;  ///< The grapevine binary.
  bool resume = false;            ///< Continue the run found in `folder`.
  /// A program that joins the run by the library, started in place of each peer; empty: none.
  std::vector<std::string> command;
  std::string faults;  ///< A file of faults. Empty means the config's own, if it has any.
};

/// Starts the peers, shows their state, waits for them and evaluates their models. Returns 0 if
/// every peer ended cleanly, 1 if one did not, 2 if the operator has to fix something.
int launch(const LaunchOptions& options);

}  // namespace gv
