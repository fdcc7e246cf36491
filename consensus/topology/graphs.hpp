// Graphs without directions as lists of edges, and the Metropolis weights of any of them.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "consensus/topology/topology.hpp"

namespace gv {

/// Two ranks that are neighbours; `low` < `high`.
struct Edge {
  std::size_t low = 0;
  std::size_t high = 0;

  friend auto operator<=>(const Edge&, const Edge&) = default;
};

/// The edges of a topology whose rounds are alike, sorted, each once; of the exponential graph
/// without their directions. The topology must fit n, and rounds of other kinds are no graph. The
/// graph is connected.
std::vector<Edge> edges_of(const Topology& topology, std::size_t n, std::uint64_t seed);

/// False for kinds whose rounds differ: matching, one_peer_exponential, base_k and moshpit.
bool is_graph(TopologyKind kind);

/// W_ij = 1 / (1 + max(degree_i, degree_j)) for neighbours (Xiao, Boyd and Lall 2005): doubly
/// stochastic and symmetric whatever the graph.
Mixing metropolis(std::size_t n, const std::vector<Edge>& edges);

/// Neighbours of each in random_regular: what was asked for, or all where there are fewer.
std::size_t regular_degree(const Topology& topology, std::size_t n);

/// Rows of the torus: the largest divisor of n up to its root. 1 if n is prime: then it is a ring.
std::size_t torus_rows(std::size_t n);

}  // namespace gv
