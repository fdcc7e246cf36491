// Reads a file that describes the peers of a swarm: their speeds, memory and links.
#pragma once

#include <string>
#include <string_view>

#include "base/problems.hpp"
#include "consensus/split/split_site.hpp"

namespace gv {

/// The most peers that a file may describe.
constexpr std::size_t peers_in_file_max = 64;

/// A site read from a file. Valid only if there are no problems.
struct ParsedPeers {
  SplitSite site;
  Problems problems;
};

/// Reads a description such as
///
///   [[peer]]                  one for each peer
///   name = "desk"
///   gflops = 8.0              10^9 multiplications and additions a second
///   memory_mb = 2000          left out: no limit
///   [links]                   for every pair of peers
///   latency_ms = 2.0
///   bandwidth_mbit = 100      each way; left out: sending takes no time
///   [[link]]                  for every pair among some peers; the last match counts
///   peers = ["desk", "tower"]
///   latency_ms = 0.1
///   bandwidth_mbit = 1000
///
/// Problems name the text as `name`.
ParsedPeers parse_peers_text(std::string_view text, std::string_view name);
ParsedPeers parse_peers_file(const std::string& path);

}  // namespace gv
