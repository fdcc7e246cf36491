// Checks that a vector's values are finite, and computes its largest magnitude and its norm.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace gv {

/// The largest magnitude allowed in a gradient that is sent or applied. The gradients of a model
/// that learns are far smaller. Optimisers compute only finite results from such gradients.
inline constexpr float largest_gradient = 0x1p40F;

/// The largest magnitude allowed in an array that a program averages with its peers, both before
/// and after the multiplication by a weight. Every practical quantity is smaller. The limit keeps
/// the sum over all peers of a swarm finite.
inline constexpr float largest_in_array = 1e35F;

/// The bits of a value's magnitude. They sort like the magnitudes, with infinity and NaN last.
/// Loops compare them faster than floats.
inline std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}

/// True if no value is NaN or infinite.
bool is_finite(std::span<const float> values);

/// The largest magnitude; 0 if there are no values, and infinite or NaN if any value is.
float largest_magnitude(std::span<const float> values);

/// The Euclidean norm; infinite or NaN if any value is.
double norm_of(std::span<const float> values);

}  // namespace gv
