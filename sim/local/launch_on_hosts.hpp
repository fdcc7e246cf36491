// Starts one peer on each of several machines by ssh, and ends them all.
#pragma once

#include <cstdint>
#include <string>

namespace gv {

struct HostsLaunchOptions {
  std::string hosts;          ///< A file with a host on each line; see read_hosts().
  std::string config;         ///< A TOML file here. Empty means the built-in default.
  std::string folder;         ///< Of the run, on each host.
  std::uint16_t port = 7000;  ///< Of the first peer on each host.
  std::string ssh = "ssh";    ///< The command that reaches a host; words are split at blanks.
  bool resume = false;        ///< Continue the run found in `folder`.
};

/// Sends the config and a fresh secret to every host, starts a peer there, prints what peers say
/// behind their names, and waits for all of them. A peer that is lost does not end the others. The
/// first interrupt makes all leave with a checkpoint, the second one gives up waiting for them.
/// Returns 0 if every peer ended cleanly, 2 if one was refused, and 1 otherwise.
int launch_on_hosts(const HostsLaunchOptions& options);

}  // namespace gv
