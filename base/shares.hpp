// How many samples of a global batch each peer computes, so that all are done at about one time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gv {

/// A plan that works is only replaced by one that is predicted to take less time by this part, so
/// that peers do not go back and forth between plans that are about equal.
inline constexpr double worth_changing = 0.15;

/// Shares of `total` samples, one for each peer: integers that sum to `total`, each at least 1 and
/// at most `most`, for which the largest share / speed, the time until the last peer is done, is as
/// small as it can be. Of shares that do equally well, those that keep every other peer's time
/// small too. Peers of no measured speed (0, negative or not finite) count as the median of the
/// measured ones; if there are none, all count the same. Of equals the first in the list gets more.
///
/// Needs peers <= total <= peers * most. Costs total * lg(peers) steps at most. (One sample after
/// another to whoever would then be done first: Graham 1969's list scheduling with unlike machines,
/// exact for samples of equal size.)
std::vector<std::uint32_t> batch_shares(std::span<const double> samples_per_second,
                                        std::uint32_t total, std::uint32_t most);

}  // namespace gv
