// Computes norms and eigenvalues with Eigen.
#include "consensus/topology/spectrum.hpp"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "base/check.hpp"
#include "consensus/topology/graphs.hpp"
#include "consensus/topology/pairs.hpp"

namespace gv {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<const Matrix> view_of(const SquareMatrix& matrix) {
  const auto n = static_cast<Eigen::Index>(matrix.n);
  return {matrix.values.data(), n, n};
}

/// Multiplies the matrix by the round's weights W from the left, row by row: x_i + sum_j w_ij (x_j
/// - x_i).
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

/// Number of edges drawn to estimate an expectation. Drawing them takes a few tenths of a second.
constexpr std::size_t edge_draws = 10000000;
/// Number of matrix entries that may be processed for each round of a period.
constexpr std::size_t entry_draws = 10000000;
/// No run reaches this round or later ones, so counts over them are independent of any run.
constexpr std::uint64_t far_round = std::uint64_t{1} << 40;

Topology graph_of(const Topology& topology) {
  return topology.kind == TopologyKind::matching ? Topology{} : topology;
}

/// A number for the edge's class. Edges that a symmetry of the graph maps to each other (rotating
/// the ranks, or swapping leaves of a star) get the same number. In a graph without a known
/// symmetry, every edge gets its own number. `place` is the edge's index in the list.
std::size_t likeness(const Topology& topology, std::size_t n, const Edge& edge, std::size_t place) {
  const std::size_t far = edge.high - edge.low;
  switch (topology.kind) {
    case TopologyKind::ring:
    case TopologyKind::star:
      return 0;
    case TopologyKind::exponential:
      return std::min(far, n - far);
    case TopologyKind::torus: {
      const std::size_t columns = n / torus_rows(n);
      return edge.low / columns == edge.high / columns ? 0 : 1;
    }
    default:
      return place;
  }
}

/// Adds W'S W to `sum`, where S is `square` and W averages each pair.
void add_square(const std::vector<RankPair>& pairs, SquareMatrix square, SquareMatrix& sum) {
  for (const auto& [a, b] : pairs) {
    for (std::size_t k = 0; k < square.n; ++k) {
      square.at(a, k) = square.at(b, k) = (square.at(a, k) + square.at(b, k)) / 2;
    }
  }
  for (const auto& [a, b] : pairs) {
    for (std::size_t k = 0; k < square.n; ++k) {
      square.at(k, a) = square.at(k, b) = (square.at(k, a) + square.at(k, b)) / 2;
    }
  }
  for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += square.values[i];
}

/// ||E[prod'prod] - J|| over one period whose rounds are drawn independently. Computed from the
/// last round to the first: S <- E[W'S W].
double drawn_period(const PairPlan& plan, std::size_t n) {
  const std::size_t draws = std::clamp<std::size_t>(entry_draws / (n * n), 30, 1000);
  const std::size_t period = plan.period();
  SquareMatrix square = identity(n);
  for (std::size_t t = period; t-- > 0;) {
    SquareMatrix sum(n);
    for (std::uint64_t draw = 0; draw < draws; ++draw) {
      add_square(plan.round((far_round + draw) * period + t), square, sum);
    }
    for (double& value : sum.values) value /= static_cast<double>(draws);
    square = std::move(sum);
  }
  return distance_to_mean(square);
}

/// For each edge, in the order of edges_of(), the estimated fraction of rounds in which it is a
/// pair.
std::vector<double> chances(const Topology& topology, std::size_t n, std::uint64_t seed,
                            std::size_t draws) {
  const std::vector<Edge> edges = edges_of(graph_of(topology), n, seed);
  if (graph_of(topology).kind == TopologyKind::complete) {
    const double pairs = std::floor(static_cast<double>(n) / 2);
    return std::vector<double>(edges.size(), pairs / static_cast<double>(edges.size()));
  }
  const PairPlan plan(topology, n, seed);
  check(plan.period() == 0 && draws > 0, "rounds that follow each other are not drawn");
  std::map<Edge, double> counts;
  for (std::uint64_t round = far_round; round < far_round + draws; ++round) {
    for (const auto& [a, b] : plan.round(round)) counts[{std::min(a, b), std::max(a, b)}] += 1;
  }
  // For each class of equivalent edges, how often they were pairs, and in how many draws.
  std::map<std::size_t, std::pair<double, double>> alike;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    auto& [pairs, members] = alike[likeness(topology, n, edges[i], i)];
    pairs += counts[edges[i]];
    members += static_cast<double>(draws);
  }
  std::vector<double> often;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const auto& [pairs, members] = alike[likeness(topology, n, edges[i], i)];
    often.push_back(pairs / members);
  }
  return often;
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
  // The largest singular value is the square root of the largest eigenvalue of A^T A. Taking the
  // root does not increase the relative error. Smaller singular values would lose digits this way.
  const bool is_symmetric = rest == rest.transpose();
  const Matrix square = is_symmetric ? rest : Matrix(rest.transpose() * rest);
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(square, Eigen::EigenvaluesOnly);
  const double largest = solver.eigenvalues().cwiseAbs().maxCoeff();
  return is_symmetric ? largest : std::sqrt(largest);
}

double Contraction::per_round() const { return std::pow(left, 1 / static_cast<double>(rounds)); }

double Contraction::rounds_to_a_tenth() const {
  if (left <= 1e-12) return static_cast<double>(rounds);
  if (left >= 1) return std::numeric_limits<double>::infinity();
  return std::log(0.1) / std::log(per_round());
}

Contraction contraction_of(const Topology& topology, std::size_t n, std::uint64_t seed) {
  if (topology.kind == TopologyKind::matching) {
    // An exchange with weight w reduces a pair's squared spread around the mean by 2w(1-w) times
    // its squared distance, as in expected_square_of_pairs.
    const double w = topology.lazy ? 0.25 : 0.5;
    const double size = static_cast<double>(n);
    const double taken = n == 1 ? 1 : 4 * w * (1 - w) * std::floor(size / 2) / (size - 1);
    return {1, std::sqrt(std::max(0.0, 1 - taken)), n > 2};
  }
  const std::size_t rounds = period_of(topology, n);
  return {rounds, distance_to_mean(product_of_rounds(topology, n, seed, rounds))};
}

double spectral_gap(const Topology& topology, std::size_t n, std::uint64_t seed) {
  return contraction_of(topology, n, seed).gap();
}

SquareMatrix expected_square_of_pairs(const Topology& topology, std::size_t n, std::uint64_t seed,
                                      std::size_t draws, double alpha) {
  const std::vector<double> often = chances(topology, n, seed, draws);
  const std::vector<Edge> edges = edges_of(graph_of(topology), n, seed);
  // W = I - a L with the Laplacian L of the pairs. L^2 = 2L, so W'W = I - 2a(1-a) L.
  SquareMatrix mean = identity(n);
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const auto [a, b] = edges[i];
    const double strength = 2 * alpha * (1 - alpha) * often[i];
    mean.at(a, a) -= strength;
    mean.at(b, b) -= strength;
    mean.at(a, b) += strength;
    mean.at(b, a) += strength;
  }
  return mean;
}

Contraction pair_contraction(const Topology& topology, std::size_t n, std::uint64_t seed) {
  if (n == 1) return {};
  if (topology.kind == TopologyKind::complete || topology.kind == TopologyKind::matching) {
    return contraction_of({.kind = TopologyKind::matching}, n, seed);
  }
  const PairPlan plan(topology, n, seed);
  const std::size_t rounds = plan.period();
  if (rounds == 0) {
    const std::size_t edges = edges_of(topology, n, seed).size();
    const std::size_t draws = std::clamp<std::size_t>(edge_draws / edges, 500, 100000);
    const SquareMatrix mean = expected_square_of_pairs(topology, n, seed, draws);
    return {1, std::sqrt(std::max(0.0, distance_to_mean(mean))), true};
  }
  if (topology.kind == TopologyKind::one_peer_exponential) {
    return {rounds, std::sqrt(std::max(0.0, drawn_period(plan, n))), true};
  }
  SquareMatrix product = identity(n);
  for (std::size_t round = 0; round < rounds; ++round) {
    mix(mixing_of_pairs(plan.round(round), n, 0.5), product);
  }
  return {rounds, distance_to_mean(product)};
}

}  // namespace gv
