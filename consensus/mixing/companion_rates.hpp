// Computes the two rates of A2CiD2's companion vector from the connectivity of the graph.
#pragma once

#include <vector>

#include "consensus/mixing/round_plan.hpp"
#include "consensus/topology/graphs.hpp"
#include "consensus/topology/spectrum.hpp"

namespace gv {

/// The two constants of A2CiD2 (Nabli 2023, section 3.2). The unit of time is one round.
struct CompanionRates {
  double leaning = 0;  ///< h = 1 / (2 sqrt(chi1 chi2)).
  double pull = 0.5;   ///< alpha~ = sqrt(chi1 / chi2) / 2.
};

/// Rates for a plan whose rounds draw pairs along a graph. Uses chi1 = 1 / lambda_2(L) and chi2 =
/// max over edges (i,j) of (e_i - e_j)' L+ (e_i - e_j) / 2, where L = 2 (I - E[W]) is the Laplacian
/// that weights each edge by how often it is a pair in a round. With fewer than three peers
/// `leaning` is 0. Takes n^3 steps.
CompanionRates companion_rates(const RoundPlan& plan);

/// Rates for pairs that meet at random times. L is the sum of rate (e_i - e_j)(e_i - e_j)' over the
/// edges, and the unit of time is that of the rates. The graph must be connected.
CompanionRates companion_rates(const SquareMatrix& laplacian, const std::vector<Edge>& edges);

}  // namespace gv
