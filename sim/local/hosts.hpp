// The hosts of a run over ssh: the file that names them, and what each of them is told to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/problems.hpp"

namespace gv {

/// One line of the file: where ssh goes, and where the other peers dial.
struct RunHost {
  std::string ssh;      ///< As ssh knows it, perhaps with a user: "ann@node1".
  std::string address;  ///< HOST:PORT.
};

struct RunHosts {
  std::vector<RunHost> hosts;
  Problems problems;
};

/// Reads lines such as "ann@node1" or "node1 192.0.2.1": a host, and the name or address by which
/// the others dial it if that differs. Empty lines and those that begin with # are left out.
/// The first peer of an address gets `port`, and each further one the next port. `file` is the name
/// in problems.
RunHosts read_hosts(std::string_view text, std::string_view file, std::uint16_t port);

/// The arguments of one peer's start that do not follow from its place in the list.
struct RemoteStart {
  std::string folder;  ///< On each host, relative to the home folder. Rank R works in rank-R below.
  std::size_t config_bytes = 0;
  std::size_t secret_bytes = 0;
  bool resume = false;
};

/// The command for the shell of host number `rank`. It takes config and secret from its input, runs
/// the peer, and ends it in order when that input ends: then the launcher or the connection to it
/// is gone. Its exit code is the peer's.
std::string remote_command(const std::vector<RunHost>& hosts, std::size_t rank,
                           const RemoteStart& start);

}  // namespace gv
