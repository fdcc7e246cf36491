// Norms and eigenvalues by Eigen.
#include "consensus/topology/spectrum.hpp"

#include <Eigen/Eigenvalues>
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <limits>

#include "consensus/base/check.hpp"
#include "consensus/topology/pairs.hpp"

namespace gv {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<const Matrix> view_of(const SquareMatrix& matrix) {
  const auto n = static_cast<Eigen::Index>(matrix.n);
  return {matrix.values.data(), n, n};
}

/// matrix <- W matrix, row by row: x_i + sum_j w_ij (x_j - x_i).
void mix(const Mixing& round, SquareMatrix& matrix) {
  const SquareMatrix before = matrix;
  for (std::size_t i = 0; i < matrix.n; ++i) {
    for (const Share& share : round[i]) {
      for (std::size_t k = 0; k < matrix.n; ++k) {
        matrix.at(i, k) += share.weight * (before.at(share.from, k) - before.at(i, k));
      }
    }
  }
}

SquareMatrix identity(std::size_t n) {
  SquareMatrix matrix(n);
  for (std::size_t i = 0; i < n; ++i) matrix.at(i, i) = 1;
  return matrix;
}

Mixing mixing_of_pairs(const std::vector<RankPair>& pairs, std::size_t n, double alpha) {
  Mixing mixing(n);
  for (const RankPair& pair : pairs) {
    mixing[pair.initiator].push_back({pair.responder, alpha});
    mixing[pair.responder].push_back({pair.initiator, alpha});
  }
  return mixing;
}

}  // namespace

SquareMatrix mixing_matrix(const Mixing& round) {
  SquareMatrix matrix(round.size());
  for (std::size_t i = 0; i < round.size(); ++i) {
    matrix.at(i, i) = own_share(round, i);
    for (const Share& share : round[i]) matrix.at(i, share.from) += share.weight;
  }
  return matrix;
}

SquareMatrix product_of_rounds(const Topology& topology, std::size_t n, std::uint64_t seed,
                               std::size_t rounds) {
  if (rounds == 0) return identity(n);
  SquareMatrix product = mixing_matrix(mixing_of(topology, n, seed, 0));
  for (std::size_t round = 1; round < rounds; ++round) {
    mix(mixing_of(topology, n, seed, round), product);
  }
  return product;
}

double distance_to_mean(const SquareMatrix& matrix) {
  const Matrix rest = view_of(matrix).array() - 1 / static_cast<double>(matrix.n);
  if (rest == rest.transpose()) {
    const Eigen::SelfAdjointEigenSolver<Matrix> solver(rest, Eigen::EigenvaluesOnly);
    return solver.eigenvalues().cwiseAbs().maxCoeff();
  }
  return Eigen::BDCSVD<Eigen::MatrixXd>(rest).singularValues()(0);
}

double Contraction::per_round() const { return std::pow(left, 1 / static_cast<double>(rounds)); }

double Contraction::rounds_to_a_tenth() const {
  if (left <= 1e-12) return static_cast<double>(rounds);
  if (left >= 1) return std::numeric_limits<double>::infinity();
  return std::log(0.1) / std::log(per_round());
}

Contraction contraction_of(const Topology& topology, std::size_t n, std::uint64_t seed) {
  if (topology.kind == TopologyKind::matching) {
    // One pair of weight w takes 2w(1-w) of the square of its distance, as in mean_square_of_pairs.
    const double w = topology.lazy ? 0.25 : 0.5;
    const double size = static_cast<double>(n);
    const double taken = n == 1 ? 1 : 4 * w * (1 - w) * std::floor(size / 2) / (size - 1);
    return {1, std::sqrt(std::max(0.0, 1 - taken))};
  }
  const std::size_t rounds = period_of(topology, n);
  return {rounds, distance_to_mean(product_of_rounds(topology, n, seed, rounds))};
}

double spectral_gap(const Topology& topology, std::size_t n, std::uint64_t seed) {
  return contraction_of(topology, n, seed).gap();
}

SquareMatrix mean_square_of_pairs(const Topology& topology, std::size_t n, std::uint64_t seed,
                                  std::uint64_t first, std::size_t rounds, double alpha) {
  check(rounds > 0, "a mean is over one round at least");
  // W = I - a L with the Laplacian L of the pairs, and L^2 = 2L: W'W = I - 2a(1-a) L.
  const double strength = 2 * alpha * (1 - alpha) / static_cast<double>(rounds);
  SquareMatrix mean = identity(n);
  const PairPlan plan(topology, n, seed);
  for (std::uint64_t round = first; round < first + rounds; ++round) {
    for (const auto& [a, b] : plan.round(round)) {
      mean.at(a, a) -= strength;
      mean.at(b, b) -= strength;
      mean.at(a, b) += strength;
      mean.at(b, a) += strength;
    }
  }
  return mean;
}

Contraction pair_contraction(const Topology& topology, std::size_t n, std::uint64_t seed,
                             std::size_t draws) {
  if (n == 1) return {};
  if (topology.kind == TopologyKind::complete || topology.kind == TopologyKind::matching) {
    return contraction_of({.kind = TopologyKind::matching}, n, seed);
  }
  const PairPlan plan(topology, n, seed);
  const std::size_t rounds = plan.period();
  if (rounds == 0) {
    const SquareMatrix mean = mean_square_of_pairs(topology, n, seed, 0, draws);
    return {1, std::sqrt(std::max(0.0, distance_to_mean(mean)))};
  }
  SquareMatrix product = identity(n);
  for (std::size_t round = 0; round < rounds; ++round) {
    mix(mixing_of_pairs(plan.round(round), n, 0.5), product);
  }
  return {rounds, distance_to_mean(product)};
}

}  // namespace gv
