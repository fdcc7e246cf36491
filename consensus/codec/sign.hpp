// Scaled sign: values as their signs and the mean magnitude of their bucket.
#pragma once

#include <cstddef>
#include <span>

namespace gv {

// Karimireddy 2019. By bucket, which never loses more than by vector:
// sum ||x_b||_1^2 / d_b >= ||x||_1^2 / d. Zeros are written as plus the scale.

constexpr std::size_t sign_bucket = 512;  ///< Values that share a scale.

std::size_t sign_size(std::size_t elements);

/// Writes `values` into `bytes`, which has their size.
void encode_sign(std::span<const float> values, std::span<std::byte> bytes);

/// Reads out.size() values from as many bytes as they take. False if a scale is none.
bool decode_sign(std::span<const std::byte> encoded, std::span<float> out);

}  // namespace gv
