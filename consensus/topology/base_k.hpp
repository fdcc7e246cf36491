// The Base-(k+1) graph: any number of peers reach the exact mean in few rounds with few partners.
#pragma once

#include <cstddef>
#include <vector>

#include "consensus/topology/topology.hpp"

namespace gv {

/// The rounds of the graph for n peers. There are at most 2 log_(k+1) n + 2 rounds, with at most k
/// partners per peer in each. Together they give every peer the mean of all models (Takezawa, Sato,
/// Bao, Niwa and Yamada 2023). Every round is symmetric and doubly stochastic. For n = 1, there is
/// one round without exchanges. n and k are at least 1.
///
/// The digits of n in base k+1 cut the peers into blocks of a_l (k+1)^(p_l), the largest first. (1)
/// Each block averages within itself. (2) Each block l in turn meets the later ones. Each peer of
/// the later blocks takes a fraction of a model of block l, spread over a_l partners, and gives the
/// same fraction of its own model. The fraction is the size of block l divided by the number of
/// peers in block l and all later ones. (3) Each block averages within its a_l parts. If it saves
/// rounds, the factors of n up to k+1 are split off. Groups whose size is the product of the other
/// factors then go through steps (1) to (3). Finally, the groups average with each other.
std::vector<Mixing> base_k_rounds(std::size_t n, std::size_t k);

/// The k of a base_k topology; 1 if it sets none.
std::size_t base_k_of(const Topology& topology);

}  // namespace gv
