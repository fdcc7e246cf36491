// The Base-(k+1) graph: any number of peers has the exact mean after a few rounds of few partners.
#pragma once

#include <cstddef>
#include <vector>

#include "consensus/topology/topology.hpp"

namespace gv {

/// Rounds of at most k partners each, at most 2 log_(k+1) n + 2 of them, whose product is the mean
/// of all (Takezawa, Sato, Bao, Niwa and Yamada 2023). Every round is symmetric and doubly
/// stochastic. One round without exchanges for n = 1. n and k are at least 1.
///
/// n is cut by its digits in base k+1 into blocks of a_l (k+1)^(p_l), the largest first. (1) Each
/// block averages within itself. (2) One after the other block l meets the later ones: each of
/// theirs takes |V_l| / |V_l + V_(l+1) + ...| of a model of block l, spread over a_l partners, and
/// gives that much of its own. (3) Each block averages within its a_l parts. Where the factors of n
/// up to k+1 make it shorter, groups of the other factors do that and then average across.
std::vector<Mixing> base_k_rounds(std::size_t n, std::size_t k);

/// The k of a topology of that kind: 1 if it was left open.
std::size_t base_k_of(const Topology& topology);

}  // namespace gv
