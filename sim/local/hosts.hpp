// The hosts of a run over ssh: the file that lists them, and the commands for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/problems.hpp"

namespace gv {

/// One line of the file: the host for ssh, and the address that other peers dial.
struct RunHost {
  std::string ssh;      ///< The host as ssh knows it, possibly with a user: "ann@node1".
  std::string address;  ///< HOST:PORT.
};

struct RunHosts {
  std::vector<RunHost> hosts;
  Problems problems;
};

/// Reads lines such as "ann@node1" or "node1 192.0.2.1". A line names a host and, if other peers
/// dial a different name or address, that name or address. Ignores empty lines and lines that begin
/// with #. The first peer at an address gets `port`, and each further one the next port. `file` is
/// the file's name in problems.
RunHosts read_hosts(std::string_view text, std::string_view file, std::uint16_t port);

/// The arguments of one peer's start that do not depend on its place in the list.
struct RemoteStart {
  /// The folder of the run, below each host's home folder. Rank R uses the subfolder rank-R.
  std::string folder;
  std::size_t config_bytes = 0;
  std::size_t secret_bytes = 0;
  bool resume = false;
};

/// The shell command for host number `rank`. The command reads config and secret from its input and
/// runs the peer. When the input ends, the launcher or the connection to it is gone, so the command
/// ends the peer cleanly. Its exit code is the peer's.
std::string remote_command(const std::vector<RunHost>& hosts, std::size_t rank,
                           const RemoteStart& start);

}  // namespace gv
