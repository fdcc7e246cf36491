// Bounds within which models do not diverge under a rule with a lossy codec.
#pragma once

#include <cstddef>

#include "consensus/mixing/mix_rule.hpp"

namespace gv {

/// The largest eigenvalue of I - W, where W holds the weights of a round: 4/3 for a ring of even
/// size, 1 for a complete graph. It says how far one round with gamma = 1 moves the models that
/// differ most from their neighbours. 1 if peers draw their partners.
double largest_pull(const MixRule& rule, std::size_t peers);

/// The largest gamma that brings models together if a memory compensates for the codec's losses: 2
/// delta / ((2 - delta) largest_pull), where delta is the codec's usual_delta(). It is exact if all
/// peers send values at the same places, drawn in each round. The reason: a value that waits T
/// rounds for its turn meanwhile moves T times by an outdated difference.
double largest_gamma(const MixRule& rule, std::size_t peers);

/// The gamma recommended in error messages: a quarter of largest_gamma(). Codecs that send the
/// largest values diverge before others, and this is below half of the smallest gamma with which
/// any of them did on a ring or a complete graph.
double safe_gamma(const MixRule& rule, std::size_t peers);

/// The squared disagreement that an unbiased codec without memory leaves, over the squared norm of
/// the models: omega c / (1 - omega c), where c is the mean of gamma l / (2 - gamma l) over all
/// eigenvalues l of I - W. Infinite if models never settle. The mean over eigenvalues is bounded by
/// that of a convex function, so the result may be too large, by a third for a ring.
double floor_of_noise(const MixRule& rule, std::size_t peers);

}  // namespace gv
