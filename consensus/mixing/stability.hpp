// Bounds within which plain gradient descent on a quadratic converges under asynchronous rules.
#pragma once

#include <cstddef>
#include <cstdint>

#include "consensus/topology/topology.hpp"

namespace gv {

/// The pull of a round: the fraction of the distance to a quadratic's optimum that `steps` local
/// steps of plain gradient descent cover, 1 - (1 - rate)^steps. `rate` is the learning rate times
/// the curvature. The functions below bound the pull.
double pull_of(double rate, std::uint64_t steps);

/// The smallest rate for which pull_of(rate, steps) is at least `pull`.
double rate_of(double pull, std::uint64_t steps);

/// The bound on the pull (see pull_of) for changes that are added `delay` changes late, as in
/// DOWNPOUR: training is stable for pulls below 2 sin(pi / (2 (2 delay + 1))). The bound is 2 for
/// no delay, and 1, 0.618 and 0.445 for delays of 1, 2 and 3. With a larger pull, a root of
/// z^(delay + 1) = z^delay - pull is outside the unit circle.
double largest_delayed_pull(std::uint64_t delay);

/// The mean delay of DOWNPOUR's changes, counted in changes, in a star or a tree of `peers` peers
/// of equal pace that do not wait. A worker next to the root starts from the answer to its
/// second-to-last change, so its changes are two rounds late, or 2 w - 1 changes with w workers.
/// Each further level adds two rounds on the way up and two on the way down. For a star, the bound
/// with this delay is exact. A tree is stable up to slightly larger pulls.
std::uint64_t delay_of_changes(TopologyKind kind, std::size_t peers);

/// The largest alpha with which asynchronous EASGD is stable, for any number of workers that take
/// turns. It is (4 - 2 pull) / (4 - pull) for pulls from 0 to 2 (Zhang, Choromanska and LeCun 2015,
/// section 4), and 0 for larger pulls.
double largest_elastic_alpha(double pull);

/// The bound on the pull (see pull_of) for slices of one model whose outputs add up, if each slice
/// trains while the others are frozen. The pull must be below 2 / slices, so (1 - rate)^steps > 1 -
/// 2 / slices.
double largest_sliced_pull(std::size_t slices);

}  // namespace gv
