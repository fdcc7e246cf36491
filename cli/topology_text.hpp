// Texts about a topology: its figures and rounds, and all kinds in a table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "consensus/topology/topology.hpp"

namespace gv {

/// The topology and the form to show.
struct TopologyQuestion {
  Topology topology;
  std::size_t peers = 8;
  std::uint64_t seed = 1;       ///< Seed of draws.
  std::size_t rounds = 0;       ///< Rounds to show; 0: one, or a period of at most eight.
  bool in_pairs = false;        ///< Rounds as gossip's exchanges run them, not the mixing matrices.
  double parameters = 1000000;  ///< Numbers in a model, of four bytes each.
};

/// The most peers whose figures are computed: eigenvalues take some seconds then.
inline constexpr std::size_t topology_peers_max = 1024;

/// One line about a kind.
std::string_view meaning_of(TopologyKind kind);

/// A round of the topology, with the weight 1/2 where it is shown in pairs.
Mixing round_shown(const TopologyQuestion& question, std::size_t round);

/// Number of rounds shown.
std::size_t rounds_shown(const TopologyQuestion& question);

/// Figures, the edges of rounds, and for up to 16 peers the matrix of the first. The topology must
/// fit the peers, and run as pairs if that is asked for.
std::string topology_report(const TopologyQuestion& question);

/// One line for each kind, with those that do not fit and why. Parameters are the defaults.
std::string topology_table(std::size_t peers, std::uint64_t seed);

}  // namespace gv
