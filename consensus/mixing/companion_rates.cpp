// Computes the rates from the eigenvalues of the graph's expected Laplacian.
#include "consensus/mixing/companion_rates.hpp"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

namespace gv {
namespace {

/// Number of rounds over which we count how often each edge is used. The error is about 1 %.
constexpr std::size_t draws = 4096;
/// An eigenvalue below this counts as the zero eigenvalue, whose eigenvector is constant.
constexpr double nothing = 1e-9;

}  // namespace

CompanionRates companion_rates(const RoundPlan& plan) {
  const std::size_t n = plan.peers();
  if (n < 3 || !is_graph(plan.topology().kind)) return {};
  // The weights W of a round of disjoint pairs are a projection (W'W = W), so `laplacian` starts as
  // E[W].
  SquareMatrix laplacian = expected_square_of_pairs(plan.topology(), n, plan.seed(), draws);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      laplacian.at(i, j) = 2 * ((i == j ? 1 : 0) - laplacian.at(i, j));
    }
  }
  return companion_rates(laplacian, edges_of(plan.topology(), n, plan.seed()));
}

CompanionRates companion_rates(const SquareMatrix& laplacian, const std::vector<Edge>& edges) {
  const auto size = static_cast<Eigen::Index>(laplacian.n);
  const Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>
      matrix(laplacian.values.data(), size, size);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(matrix);
  const Eigen::VectorXd& values = solver.eigenvalues();
  Eigen::VectorXd inverse = Eigen::VectorXd::Zero(size);
  for (Eigen::Index k = 0; k < size; ++k) {
    if (values(k) > nothing) inverse(k) = 1 / values(k);
  }
  const Eigen::MatrixXd pseudo =
      solver.eigenvectors() * inverse.asDiagonal() * solver.eigenvectors().transpose();
  double resistance = 0;
  for (const Edge& edge : edges) {
    const auto i = static_cast<Eigen::Index>(edge.low);
    const auto j = static_cast<Eigen::Index>(edge.high);
    resistance = std::max(resistance, pseudo(i, i) + pseudo(j, j) - 2 * pseudo(i, j));
  }
  const double chi1 = inverse.maxCoeff();
  const double chi2 = resistance / 2;
  return {.leaning = 1 / (2 * std::sqrt(chi1 * chi2)), .pull = std::sqrt(chi1 / chi2) / 2};
}

}  // namespace gv
