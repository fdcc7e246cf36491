// Starts one peer on each of several machines by ssh, and ends them all.
#pragma once

#include <cstdint>
#include <string>

namespace gv {

struct HostsLaunchOptions {
  std::string hosts;          ///< A file with one host on each line; see read_hosts().
  std::string config;         ///< A local TOML file. Empty means the built-in default.
  std::string folder;         ///< The folder of the run on each host.
  std::uint16_t port = 7000;  ///< The port of the first peer on each host.
  std::string ssh = "ssh";    ///< The command that reaches a host, split at blanks.
  bool resume = false;        ///< Continue the run found in `folder`.
};

/// Sends the config and a fresh secret to every host and starts a peer there. Prints each line of
/// the peers' output after the peer's name, and waits for all peers. The loss of a peer does not
/// end the others. The first interrupt makes all peers save a checkpoint and leave; the second
/// stops waiting for them. Returns 0 if every peer ended cleanly, 2 if one was refused, and 1
/// otherwise.
int launch_on_hosts(const HostsLaunchOptions& options);

}  // namespace gv
