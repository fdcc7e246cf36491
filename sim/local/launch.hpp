// Runs several peers on one machine as real processes, with keys, a live table and a summary.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gv {

/// The most peers that are started on one machine.
inline constexpr std::size_t launched_peers_max = 256;

struct LaunchOptions {
  /// Number of peers. 0 means the number of a resumed run, or run.peers of the config for a new
  /// run.
  std::size_t peers = 0;
  /// A TOML file. Empty means the config of a resumed run, or the built-in default for a new run.
  std::string config;
  /// The run's folder. Empty means a new one below the config's run.folder.
  std::filesystem::path folder;
  std::filesystem::path program;  ///< The grapevine binary.
  bool resume = false;            ///< Continue the run found in `folder`.
  /// The command of a user's program, which is started in place of each peer and joins the run
  /// through the library. Empty if there is none.
  std::vector<std::string> command;
  std::string faults;  ///< A file of faults. Empty means the config's own faults, if any.
};

/// Starts the peers, shows their state, waits for them and evaluates their models. Returns 0 if
/// every peer ended cleanly, 1 if any did not, 2 if the operator must fix something, and 130 if an
/// interrupt came before any peer had a model.
int launch(LaunchOptions options);

}  // namespace gv
