// Mixing matrices, and how fast they bring models together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "consensus/topology/topology.hpp"

namespace gv {

/// An n x n matrix, stored row by row.
struct SquareMatrix {
  std::size_t n = 0;
  std::vector<double> values;

  explicit SquareMatrix(std::size_t size) : n(size), values(size * size, 0) {}
  double& at(std::size_t row, std::size_t column) { return values[row * n + column]; }
  double at(std::size_t row, std::size_t column) const { return values[row * n + column]; }
};

/// The matrix W of one round. Row i holds the weights that rank i gives each rank, itself included.
SquareMatrix mixing_matrix(const Mixing& round);

/// W_(rounds-1) ... W_1 W_0, the combined effect of the first `rounds` rounds.
SquareMatrix product_of_rounds(const Topology& topology, std::size_t n, std::uint64_t seed,
                               std::size_t rounds);

/// ||W - J||_2 with J = 11'/n: the largest fraction of a spread around the mean that W can leave.
/// It is the largest singular value of W - J, computed in n^3 steps with an error of about 1e-14.
double distance_to_mean(const SquareMatrix& matrix);

/// The fraction of the spread sqrt((1/n) sum ||x_i - mean||^2) that is left after some rounds.
struct Contraction {
  std::size_t rounds = 1;
  double left = 0;  ///< The largest fraction of the spread left after `rounds` rounds, from 0 to 1.
  /// True if `left` is the root mean square over all draws instead of the largest.
  bool in_mean = false;

  double gap() const { return 1 - left; }
  /// The fraction of the spread that one round leaves if all rounds contract equally.
  double per_round() const;
  /// Number of rounds until a tenth of the spread is left; infinity if it never shrinks.
  double rounds_to_a_tenth() const;
};

/// The contraction ||P - J||_2 of one period, where P is the product of its rounds. It bounds the
/// spread left for any models. For `matching`, it is the root mean square over all draws, whose
/// square is (n-2)/(2(n-1)) for even n (Boyd and others 2006) and 1/2 for odd n. The topology must
/// fit n.
Contraction contraction_of(const Topology& topology, std::size_t n, std::uint64_t seed);

/// 1 - ||W - J||_2. If rounds differ, W is the product over one period.
double spectral_gap(const Topology& topology, std::size_t n, std::uint64_t seed = 0);

/// M = E[W'W] for the pairs drawn in a round (see PairPlan), where each peer moves towards its
/// partner by the fraction `alpha` (1/2 averages). For every x that sums to 0, a round leaves on
/// average the fraction x'Mx / x'x of its squared spread around the mean. The frequency of each
/// edge is counted over `draws` rounds that no run reaches, and averaged over all edges that a
/// symmetry of the graph makes equivalent. So ring, star, torus and exponential are exact to about
/// 1 / sqrt(draws n). A matching is exact. Must not be called for kinds whose pairs follow a fixed
/// sequence.
SquareMatrix expected_square_of_pairs(const Topology& topology, std::size_t n, std::uint64_t seed,
                                      std::size_t draws, double alpha = 0.5);

/// The contraction by pair exchanges if all peers are always in the same round. For drawn
/// matchings, it comes from the second eigenvalue of expected_square_of_pairs(). For hypercube and
/// base_k, it comes from the norm of a period's product P, and for one_peer_exponential from the
/// norm of E[P'P] over the random starting ranks. The topology must fit n and be able to run as
/// pairs.
Contraction pair_contraction(const Topology& topology, std::size_t n, std::uint64_t seed);

}  // namespace gv
