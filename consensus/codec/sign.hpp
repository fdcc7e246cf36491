// Scaled sign: each value becomes its sign times the mean magnitude of its bucket.
#pragma once

#include <cstddef>
#include <span>

namespace gv {

// This follows Karimireddy et al. 2019. We scale each bucket separately, which never loses more
// than scaling the whole vector does: sum ||x_b||_1^2 / d_b >= ||x||_1^2 / d, where bucket x_b has
// d_b of the d values. A zero is decoded as +scale.

constexpr std::size_t sign_bucket = 512;  ///< Number of values that share a scale.

std::size_t sign_size(std::size_t elements);

/// Writes `values` into `bytes`, which must have their sign_size().
void encode_sign(std::span<const float> values, std::span<std::byte> bytes);

/// Reads out.size() values from sign_size() bytes. Returns false if a scale is negative or not
/// finite.
bool decode_sign(std::span<const std::byte> encoded, std::span<float> out);

}  // namespace gv
