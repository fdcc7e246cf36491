// Computes the two rates of A2CiD2's companion vector from the connectivity of the graph.
#pragma once

#include <vector>

#include "consensus/mixing/round_plan.hpp"
#include "consensus/topology/graphs.hpp"
#include "consensus/topology/spectrum.hpp"

namespace gv {

/// The two constants of A2CiD2 (Nabli 2023, section 3.2), computed from chi1 and chi2 (see below).
struct CompanionRates {
  double leaning = 0;  ///< h = 1 / (2 sqrt(chi1 chi2)), per unit of time.
  double pull = 0.5;   ///< alpha~ = sqrt(chi1 / chi2) / 2.
};

/// Rates for a plan whose rounds draw pairs along a graph. The unit of time is one round.
/// L = 2 (I - E[W]) is the Laplacian that weights each edge by its probability of being a pair in
/// a round, L+ is its pseudo-inverse, lambda_2 its second-smallest eigenvalue, and e_i the i-th
/// unit vector. Then chi1 is 1 / lambda_2, and chi2 is the maximum of (e_i - e_j)' L+ (e_i - e_j) /
/// 2 over all edges (i, j). With fewer than three peers, `leaning` is 0. Takes time proportional to
/// n^3 for n peers.
CompanionRates companion_rates(const RoundPlan& plan);

/// Rates for pairs that meet at random times. `laplacian` is the sum over the edges (i, j) of f
/// (e_i - e_j)(e_i - e_j)', where e_i is the i-th unit vector and f is how often the two peers meet
/// per unit of time. The results use the same unit of time. The graph must be connected.
CompanionRates companion_rates(const SquareMatrix& laplacian, const std::vector<Edge>& edges);

}  // namespace gv
