// How far asynchronous rules may go before plain gradient descent on a quadratic runs apart.
#pragma once

#include <cstddef>
#include <cstdint>

#include "consensus/topology/topology.hpp"

namespace gv {

/// The part of the way to the optimum that a round of `steps` local steps of plain gradient descent
/// covers, 1 - (1 - rate)^steps, on a quadratic of curvature 1; `rate` is then the learning rate
/// times the curvature. The bounds below are of this part.
double pull_of(double rate, std::uint64_t steps);

/// The smallest rate from which on rounds of `steps` steps pull by `pull` or more.
double rate_of(double pull, std::uint64_t steps);

/// Changes that are added up `delay` changes late, as in DOWNPOUR, are stable for pulls below
/// 2 sin(pi / (2 (2 delay + 1))): 2 without a delay, then 1, 0.618, 0.445. With a larger one, a
/// root of z^(delay + 1) = z^delay - pull is outside of the unit circle.
double largest_delayed_pull(std::uint64_t delay);

/// How many changes late those of DOWNPOUR are in the mean, where `peers` peers of one pace do not
/// wait, in a star or a tree. A worker of the root steps from the answer to the change before its
/// last, so its own are two rounds late: 2 workers - 1 changes. Each level more adds two rounds on
/// the way up and two on the way down. In a star the bound of this delay is exact; in a tree peers
/// are stable somewhat beyond it.
std::uint64_t delay_of_changes(TopologyKind kind, std::size_t peers);

/// The largest alpha with which asynchronous EASGD is stable, for any number of workers that take
/// turns: (4 - 2 pull) / (4 - pull) (Zhang, Choromanska and LeCun 2015, section 4, for pull 0 to
/// 2). 0 for larger pulls.
double largest_elastic_alpha(double pull);

/// Slices of one model that each train while the others are frozen are stable for pulls below
/// 2 / slices, where all of them add up to one output: (1 - rate)^steps > 1 - 2 / slices.
double largest_sliced_pull(std::size_t slices);

}  // namespace gv
