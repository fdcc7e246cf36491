// Tells whether a vector's values are finite, how large they are, and how long it is.
#pragma once

#include <span>

namespace gv {

/// No value of a gradient that is sent or applied is larger. No model that learns comes near it,
/// and what optimisers make of it is finite.
inline constexpr float largest_gradient = 0x1p40F;

/// The same for arrays that programs average, each value also times its weight: any quantity fits,
/// and the sum over all peers of a swarm is finite.
inline constexpr float largest_in_array = 1e35F;

/// True if no value is NaN or infinite.
bool is_finite(std::span<const float> values);

/// The largest magnitude. 0 if there are no values; infinite or NaN if any value is.
float largest_magnitude(std::span<const float> values);

/// The Euclidean norm. Infinite or NaN if any value is.
double norm_of(std::span<const float> values);

}  // namespace gv
