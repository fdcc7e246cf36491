// Mixing matrices and how fast they bring models together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "consensus/topology/topology.hpp"

namespace gv {

/// n x n numbers, row after row.
struct SquareMatrix {
  std::size_t n = 0;
  std::vector<double> values;

  explicit SquareMatrix(std::size_t size) : n(size), values(size * size, 0) {}
  double& at(std::size_t row, std::size_t column) { return values[row * n + column]; }
  double at(std::size_t row, std::size_t column) const { return values[row * n + column]; }
};

/// W of one round: row i is what rank i takes of each, itself included.
SquareMatrix mixing_matrix(const Mixing& round);

/// W_(rounds-1) ... W_1 W_0, what rounds 0, 1, ... come to.
SquareMatrix product_of_rounds(const Topology& topology, std::size_t n, std::uint64_t seed,
                               std::size_t rounds);

/// ||W - J||_2 with J = 11'/n: the most of a spread around the mean that W can leave. The largest
/// singular value; in n^3 steps, exact to about 1e-14.
double distance_to_mean(const SquareMatrix& matrix);

/// What some rounds leave of the spread sqrt((1/n) sum ||x_i - mean||^2).
struct Contraction {
  std::size_t rounds = 1;
  double left = 0;       ///< Of the spread after so many rounds, at most; 0 to 1.
  bool in_mean = false;  ///< That is the root of the mean square over what is drawn.

  double gap() const { return 1 - left; }
  /// The same for one round, if all did as much.
  double per_round() const;
  /// Rounds until a tenth is left; infinity if nothing ever goes.
  double rounds_to_a_tenth() const;
};

/// By ||prod - J||_2 over one period: at least so much goes, whatever the models. For matching the
/// root of the mean square over all draws, with Boyd and others' (2006) (n-2)/(2(n-1)) for even n
/// and 1/2 for odd n. The topology must fit n.
Contraction contraction_of(const Topology& topology, std::size_t n, std::uint64_t seed);

/// 1 - ||W - J||_2, over one period where rounds differ.
double spectral_gap(const Topology& topology, std::size_t n, std::uint64_t seed = 0);

/// E[W'W] for the pairs that are drawn in a round (see PairPlan), where each moves by `alpha` (1/2
/// averages it): the part of the scatter of x around the mean that a round leaves is x'Mx / x'x in
/// the mean, for every x that sums to 0. How often an edge is a pair is counted over `draws` rounds
/// far from the first, and averaged over edges that a symmetry of the graph makes alike, so that
/// ring, star, torus and exponential are exact to about 1 / sqrt(draws n); a matching is exact. For
/// kinds whose pairs follow each other there is nothing to draw: not to be asked of those.
SquareMatrix expected_square_of_pairs(const Topology& topology, std::size_t n, std::uint64_t seed,
                                      std::size_t draws, double alpha = 0.5);

/// What pair exchanges leave of the spread when all peers keep step. For drawn matchings by the
/// second eigenvalue of expected_square_of_pairs; for hypercube and base_k by the norm of a
/// period's product; for one_peer_exponential by that of E[prod'prod] over drawn ranks to count
/// from. The topology must fit n and run as pairs.
Contraction pair_contraction(const Topology& topology, std::size_t n, std::uint64_t seed);

}  // namespace gv
