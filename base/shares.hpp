// Divides a global batch of samples among peers so that all finish at about the same time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gv {

/// A new plan replaces the present one only if it is predicted to save this fraction of the present
/// plan's time. Otherwise peers would switch back and forth between plans of about equal quality.
inline constexpr double worth_changing = 0.15;

/// Returns the speeds. Each speed that was not measured (0, negative or not finite) is replaced by
/// the median of the measured ones, or by 1 if there are none. The median of an even count is the
/// lower of the two middle values.
std::vector<double> known_speeds(std::span<const double> speeds);

/// Divides `total` samples among the peers. The shares are integers that sum to `total`, each from
/// `least` to `most`. They minimise the largest share / speed, which is the time until the last
/// peer finishes. Among equally good results, the other peers' times are kept small too. A peer
/// without a measured speed gets one from known_speeds(). Among equally fast peers, the first in
/// the list get the samples left over.
///
/// Requires peers * least <= total <= peers * most and least >= 1. Takes about
/// peers * (peers + lg(total)) operations, or fewer. (Each sample goes to the peer that would then
/// finish first: Graham's 1969 list scheduling with machines of different speeds, exact for samples
/// of equal size.)
std::vector<std::uint32_t> batch_shares(std::span<const double> samples_per_second,
                                        std::uint32_t total, std::uint32_t most,
                                        std::uint32_t least = 1);

}  // namespace gv
