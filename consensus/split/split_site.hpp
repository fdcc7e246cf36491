// Describes the peers among which a model's layers are shared: speeds, memory and links.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace gv {

/// A link between two peers, the same in both directions.
struct SplitLink {
  double latency_s = 0;    ///< Latency one way.
  double bytes_per_s = 0;  ///< In each direction; 0 means that sending takes no time.

  /// Seconds until a message of that size has arrived.
  double seconds(double bytes) const {
    return latency_s + (bytes_per_s > 0 ? bytes / bytes_per_s : 0);
  }
};

struct SplitPeer {
  std::string name;
  double operations_per_s = 0;  ///< Multiplications and additions in a second; above 0.
  double memory_bytes = 0;      ///< Limit for this peer; 0 means none.
};

/// The number of consecutive messages in a gather of q parts.
enum class GatherRounds {
  ring,     ///< q - 1: each member passes on what it has received.
  doubling  ///< The logarithm of q, rounded up: members exchange all they have.
};

struct SplitSite {
  std::vector<SplitPeer> peers;
  /// links[a][b] for a != b; symmetric.
  std::vector<std::vector<SplitLink>> links;
  GatherRounds rounds = GatherRounds::ring;
};

/// Peers that share layers, in the order of falling speed.
struct SplitGroup {
  std::vector<std::size_t> peers;  ///< Indices in the site.
  std::vector<double> speeds;      ///< Operations a second of each.
  /// The worst latency and bandwidth inside blocks of 1, 2, 3, ... consecutive peers, for numbers
  /// that divide the size.
  std::vector<SplitLink> in_blocks;

  std::size_t size() const { return peers.size(); }
  /// The worst link inside blocks of that many peers, which must divide the size.
  const SplitLink& link(std::size_t block) const { return in_blocks[block - 1]; }
  const SplitLink& link() const { return in_blocks.back(); }
};

/// The group of these peers, sorted by falling speed; ties go to the lower index.
SplitGroup group_of(const SplitSite& site, std::vector<std::size_t> peers);

/// True if every peer of `inner` is in `outer`.
bool contains(const SplitGroup& outer, const SplitGroup& inner);

/// Divides peers into clusters by single linkage: the latencies of the cheapest tree that connects
/// them are sorted, and all links are cut from the first one that is more than three times as slow
/// as the previous. Clusters and their peers are in the order of falling speed.
std::vector<std::vector<std::size_t>> clusters_of(const SplitSite& site,
                                                  std::span<const std::size_t> peers);

/// The groups worth trying among these peers: the fastest one, two, three, ... of all peers and of
/// each cluster. Each occurs once.
std::vector<SplitGroup> candidate_groups(const SplitSite& site, std::span<const std::size_t> peers);

/// Divides `grains` equal pieces in proportion to `weights` by largest remainders; ties go to the
/// earlier one. A part may be 0.
std::vector<std::size_t> largest_remainders(std::size_t grains, std::span<const double> weights);

}  // namespace gv
