// Texts about a topology: its key figures and rounds, and a table of all kinds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "consensus/topology/topology.hpp"

namespace gv {

/// The topology to show, and how.
struct TopologyQuestion {
  Topology topology;
  std::size_t peers = 8;
  std::uint64_t seed = 1;  ///< Seed of random topologies.
  std::size_t rounds = 0;  ///< Rounds to show; 0: one period (at most 8), or 3 without a period.
  /// Show the rounds as gossip's pair exchanges run them, instead of the mixing matrices.
  bool in_pairs = false;
  double parameters = 1000000;  ///< Number of values in a model, four bytes each.
};

/// The largest number of peers for which figures are computed. With this many peers, computing
/// eigenvalues takes a few seconds.
inline constexpr std::size_t topology_peers_max = 1024;

/// A sentence that describes this kind.
std::string_view meaning_of(TopologyKind kind);

/// A round of the topology. If it is shown in pairs, each pair has weight 1/2.
Mixing round_shown(const TopologyQuestion& question, std::size_t round);

/// The number of rounds shown.
std::size_t rounds_shown(const TopologyQuestion& question);

/// Figures, the edges of the rounds, and for up to 16 peers the matrix of the first round. The
/// topology must fit the peers and, if pairs are requested, must be able to run as pairs.
std::string topology_report(const TopologyQuestion& question);

/// One line for each kind with default parameters. Kinds that do not fit are listed with the
/// reason.
std::string topology_table(std::size_t peers, std::uint64_t seed);

}  // namespace gv
