// Describes the peers among which a model's layers are shared: speeds, memory and links.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace gv {

/// A link between two peers, the same in both directions.
struct SplitLink {
  double latency_s = 0;    ///< Latency one way.
  double bytes_per_s = 0;  ///< Bandwidth in each direction. 0 means that sending takes no time.

  /// Seconds until a message of `bytes` bytes has arrived.
  double seconds(double bytes) const {
    return latency_s + (bytes_per_s > 0 ? bytes / bytes_per_s : 0);
  }

  /// Takes over the other link's latency and bandwidth where they are worse.
  void worsen(const SplitLink& other) {
    latency_s = std::max(latency_s, other.latency_s);
    const bool is_slower = bytes_per_s == 0 || other.bytes_per_s < bytes_per_s;
    if (other.bytes_per_s > 0 && is_slower) bytes_per_s = other.bytes_per_s;
  }
};

struct SplitPeer {
  std::string name;
  double operations_per_s = 0;  ///< Multiplications and additions per second; above 0.
  double memory_bytes = 0;      ///< The peer's memory limit. 0 means no limit.
};

/// How many messages follow one another when each of q peers gathers the parts of all.
enum class GatherRounds {
  ring,     ///< q - 1 messages: each member passes on what it has received.
  doubling  ///< log2 of q, rounded up: pairs of members exchange all parts that they have.
};

struct SplitSite {
  std::vector<SplitPeer> peers;
  /// links[a][b] is the link between peers a and b, for a != b. Symmetric.
  std::vector<std::vector<SplitLink>> links;
  GatherRounds rounds = GatherRounds::ring;
};

/// Peers that share layers, in order of descending speed.
struct SplitGroup {
  std::vector<std::size_t> peers;  ///< Indices in the site.
  std::vector<double> speeds;      ///< Operations per second of each peer.
  /// in_blocks[n - 1] is the worst latency and bandwidth inside blocks of n consecutive peers, if n
  /// divides the size of the group.
  std::vector<SplitLink> in_blocks;

  std::size_t size() const { return peers.size(); }
  /// The worst link inside blocks of `block` peers, which must divide size().
  const SplitLink& link(std::size_t block) const { return in_blocks[block - 1]; }
  const SplitLink& link() const { return in_blocks.back(); }
};

/// The group of these peers, sorted by descending speed. On a tie, the lower index comes first.
SplitGroup group_of(const SplitSite& site, std::vector<std::size_t> peers);

/// True if every peer of `inner` is in `outer`.
bool contains(const SplitGroup& outer, const SplitGroup& inner);

/// Divides peers into clusters by single linkage. The links of the cheapest tree that connects the
/// peers are sorted by latency. The first link with more than three times the latency of its
/// predecessor is cut, and so are all later ones. Clusters and their peers are in order of
/// descending speed.
std::vector<std::vector<std::size_t>> clusters_of(const SplitSite& site,
                                                  std::span<const std::size_t> peers);

/// The groups worth trying among these peers: of all peers, and of each cluster, the fastest one,
/// the fastest two, the fastest three, and so on. No group occurs twice.
std::vector<SplitGroup> candidate_groups(const SplitSite& site, std::span<const std::size_t> peers);

/// Divides `grains` equal pieces in proportion to `weights` by the method of largest remainders. On
/// a tie, the earlier part gets the piece. A part may be 0.
std::vector<std::size_t> largest_remainders(std::size_t grains, std::span<const double> weights);

}  // namespace gv
