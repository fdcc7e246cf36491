// Computes how many samples of a global batch each peer gets, so that all finish at about the same
// time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gv {

/// A working plan is replaced only if the new plan is predicted to save this fraction of its time.
/// Otherwise peers would switch back and forth between plans of about equal quality.
inline constexpr double worth_changing = 0.15;

/// Divides `total` samples among the peers: integers that sum to `total`, each from `least` to
/// `most`.
/// They minimise the largest share / speed, which is the time until the last peer finishes. Among
/// equally good results, the other peers' times are kept small too. A peer without a measured speed
/// (0, negative or not finite) counts as the median of the measured ones; if no speed was measured,
/// all count the same. Among equal peers, the first in the list gets more.
///
/// Requires peers * least <= total <= peers * most and least >= 1. Takes at most total * lg(peers)
/// steps. (Each sample goes to the peer that would then finish first: Graham's 1969 list scheduling
/// with unlike machines, exact for samples of equal size.)
std::vector<std::uint32_t> batch_shares(std::span<const double> samples_per_second,
                                        std::uint32_t total, std::uint32_t most,
                                        std::uint32_t least = 1);

}  // namespace gv
