// Reads a file that describes the peers of a swarm: their speeds, memory and links.
#pragma once

#include <string>
#include <string_view>

#include "base/problems.hpp"
#include "consensus/split/split_site.hpp"

namespace gv {

/// The largest number of peers in a file.
constexpr std::size_t peers_in_file_max = 64;

/// A site read from a file. Valid only if there are no problems.
struct ParsedPeers {
  SplitSite site;
  Problems problems;
};

/// Reads
///
///   [[peer]]                  one for each peer
///   name = "desk"
///   gflops = 8.0              10^9 multiplications and additions a second
///   memory_mb = 2000          left out: no limit
///   [links]                   of every pair of peers
///   latency_ms = 2.0
///   bandwidth_mbit = 100      each way; left out: sending takes no time
///   [[link]]                  of every pair among some peers; the last one counts
///   peers = ["desk", "tower"]
///   latency_ms = 0.1
///   bandwidth_mbit = 1000
///
/// `name` is the text's in problems.
ParsedPeers parse_peers_text(std::string_view text, std::string_view name);
ParsedPeers parse_peers_file(const std::string& path);

}  // namespace gv
