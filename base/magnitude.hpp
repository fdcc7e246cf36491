// Tells whether a vector's values are finite, and computes the largest magnitude and the norm.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace gv {

/// The largest value in a gradient that is sent or applied. No model that learns comes near it, and
/// optimisers' results from such gradients are finite.
inline constexpr float largest_gradient = 0x1p40F;

/// The largest value in arrays that programs average, before and after multiplication by its
/// weight. Any quantity fits, and the sum over all peers of a swarm is finite.
inline constexpr float largest_in_array = 1e35F;

/// The bits of a value's magnitude. They have the order of the magnitudes; those of infinity and
/// NaN come last. Loops compare them faster than floats.
inline std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}

/// True if no value is NaN or infinite.
bool is_finite(std::span<const float> values);

/// The largest magnitude. 0 if there are no values; infinite or NaN if any value is.
float largest_magnitude(std::span<const float> values);

/// The Euclidean norm. Infinite or NaN if any value is.
double norm_of(std::span<const float> values);

}  // namespace gv
