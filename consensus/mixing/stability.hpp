// Bounds within which plain gradient descent on a quadratic converges under asynchronous rules.
#pragma once

#include <cstddef>
#include <cstdint>

#include "consensus/topology/topology.hpp"

namespace gv {

/// The fraction of the distance to the optimum that a round of `steps` local steps of plain
/// gradient descent covers, 1 - (1 - rate)^steps, on a quadratic of curvature 1; in general `rate`
/// is the learning rate times the curvature. The functions below bound this fraction, the pull.
double pull_of(double rate, std::uint64_t steps);

/// The smallest rate with which rounds of `steps` steps pull by `pull` or more.
double rate_of(double pull, std::uint64_t steps);

/// The bound for changes that are added `delay` changes late, as in DOWNPOUR: they are stable for
/// pulls below 2 sin(pi / (2 (2 delay + 1))), which is 2 without a delay, then 1, 0.618, 0.445.
/// With a larger pull, a root of z^(delay + 1) = z^delay - pull is outside the unit circle.
double largest_delayed_pull(std::uint64_t delay);

/// The mean delay of DOWNPOUR's changes, in changes, if `peers` peers of equal pace do not wait, in
/// a star or a tree. A worker at the root steps from the answer to its last change but one, so its
/// own changes are two rounds late: 2 workers - 1 changes. Each further level adds two rounds on
/// the way up and two on the way down. For a star the bound with this delay is exact; a tree is
/// stable somewhat beyond it.
std::uint64_t delay_of_changes(TopologyKind kind, std::size_t peers);

/// The largest alpha with which asynchronous EASGD is stable, for any number of workers that take
/// turns: (4 - 2 pull) / (4 - pull) (Zhang, Choromanska and LeCun 2015, section 4, for pull 0 to
/// 2). 0 for larger pulls.
double largest_elastic_alpha(double pull);

/// The bound for slices of one model that train in turn while the others are frozen, if all slices
/// add up to one output: pulls must be below 2 / slices, so (1 - rate)^steps > 1 - 2 / slices.
double largest_sliced_pull(std::size_t slices);

}  // namespace gv
