// Undirected graphs as lists of edges, and their Metropolis weights.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "consensus/topology/topology.hpp"

namespace gv {

/// Two neighbouring ranks; `low` < `high`.
struct Edge {
  std::size_t low = 0;
  std::size_t high = 0;

  friend auto operator<=>(const Edge&, const Edge&) = default;
};

/// The edges of a topology whose rounds are alike (see is_graph), sorted, each once; those of the
/// exponential graph lose their directions. The topology must fit n. The graph is connected.
std::vector<Edge> edges_of(const Topology& topology, std::size_t n, std::uint64_t seed);

/// False for kinds whose rounds differ: matching, one_peer_exponential, base_k and moshpit.
bool is_graph(TopologyKind kind);

/// W_ij = 1 / (1 + max(degree_i, degree_j)) for neighbours (Xiao, Boyd and Lall 2005): doubly
/// stochastic and symmetric for every graph.
Mixing metropolis(std::size_t n, const std::vector<Edge>& edges);

/// Neighbours of each rank in random_regular: the number asked for, or all if there are fewer.
std::size_t regular_degree(const Topology& topology, std::size_t n);

/// Rows of the torus: the largest divisor of n up to its root. 1 if n is prime; the torus is then a
/// ring.
std::size_t torus_rows(std::size_t n);

}  // namespace gv
