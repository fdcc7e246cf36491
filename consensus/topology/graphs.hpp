// Undirected graphs as lists of edges, and their Metropolis weights.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "consensus/topology/topology.hpp"

namespace gv {

/// Two neighbouring ranks, `low` < `high`.
struct Edge {
  std::size_t low = 0;
  std::size_t high = 0;

  friend auto operator<=>(const Edge&, const Edge&) = default;
};

/// The edges of a topology whose rounds are equal (see is_graph), sorted and without duplicates.
/// Edges of the exponential graph lose their direction. The topology must fit n. The graph is
/// connected.
std::vector<Edge> edges_of(const Topology& topology, std::size_t n, std::uint64_t seed);

/// True for kinds whose rounds are equal: all but matching, one_peer_exponential, base_k, moshpit
/// and hosts.
bool is_graph(TopologyKind kind);

/// The weights W_ij = 1 / (1 + max(degree_i, degree_j)) of neighbours (Xiao, Boyd and Lall 2005),
/// which are doubly stochastic and symmetric for every graph.
Mixing metropolis(std::size_t n, const std::vector<Edge>& edges);

/// The degree of a random_regular graph: the one asked for, or n - 1 if that is less.
std::size_t regular_degree(const Topology& topology, std::size_t n);

/// Number of rows of the torus: the largest divisor of n up to sqrt(n). It is 1 if n is prime, and
/// the torus is then a ring.
std::size_t torus_rows(std::size_t n);

}  // namespace gv
