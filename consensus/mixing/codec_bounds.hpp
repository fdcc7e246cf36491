// Bounds that keep models from diverging under a rule with a lossy codec.
#pragma once

#include <cstddef>

#include "consensus/mixing/mix_rule.hpp"

namespace gv {

/// The largest eigenvalue of I - W, where W holds the weights of a round: 4/3 for a ring of even
/// size, 1 for a complete graph, and 1 if peers draw their partners. This eigenvalue says how far
/// one round with gamma = 1 moves the models that differ most from their neighbours.
double largest_pull(const MixRule& rule, std::size_t peers);

/// The largest gamma that still brings models together if a memory compensates for the codec's
/// losses. It is 2 delta / ((2 - delta) largest_pull), where delta is the codec's usual_delta().
/// The bound is exact if, in each round, all peers send the values at the same randomly drawn
/// positions. The limit exists because a value that waits T rounds for its turn moves T times by an
/// outdated difference.
double largest_gamma(const MixRule& rule, std::size_t peers);

/// The gamma recommended in error messages: a quarter of largest_gamma(). Models diverge first with
/// codecs that send only the largest values. On a ring and on a complete graph, the smallest gamma
/// with which this happened was more than twice the recommended one.
double safe_gamma(const MixRule& rule, std::size_t peers);

/// The squared disagreement that remains with an unbiased codec without memory, divided by the
/// squared norm of the models. It is omega c / (1 - omega c), where c is the mean of gamma l / (2 -
/// gamma l) over all eigenvalues l of I - W, and omega is 1 / usual_delta() - 1. Infinite if models
/// never settle. The mean over eigenvalues is replaced by an upper bound (convexity), so the result
/// may be too large: by a third for a ring.
double floor_of_noise(const MixRule& rule, std::size_t peers);

}  // namespace gv
