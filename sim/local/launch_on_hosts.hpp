// Starts one peer on each of several machines by ssh, and ends them all.
#pragma once

#include <cstdint>
#include <string>

namespace gv {

struct HostsLaunchOptions {
  std::string hosts;          ///< A file with a host on each line; see read_hosts().
  std::string config;         ///< A TOML file here. Empty means the built-in default.
  std::string folder;         ///< The folder of the run on each host.
  std::uint16_t port = 7000;  ///< The port of the first peer on each host.
  std::string ssh = "ssh";    ///< The command that reaches a host; words are split at blanks.
  bool resume = false;        ///< Continue the run found in `folder`.
};

/// Sends the config and a fresh secret to every host, starts a peer there, prints the peers' output
/// after their names, and waits for all of them. A lost peer does not end the others. The first
/// interrupt makes all leave with a checkpoint; the second stops waiting for them. Returns 0 if
/// every peer ended cleanly, 2 if one was refused, and 1 otherwise.
int launch_on_hosts(const HostsLaunchOptions& options);

}  // namespace gv
