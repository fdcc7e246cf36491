// Codecs that keep some values and drop the others: the largest ones, or ones drawn at random.
#pragma once

#include <cstddef>
#include <span>

#include "base/rng.hpp"

namespace gv {

// Source: Stich 2018. k is at least 1 and at most the number of values.

/// top_k: the k largest magnitudes with their indices. On ties the smaller index wins.
std::size_t top_k_size(std::size_t elements, std::size_t k);
void encode_top_k(std::span<const float> values, std::size_t k, Rng& rng, std::span<std::byte> out);
/// Returns false if the bytes are not an encoded top_k vector.
bool decode_top_k(std::span<const std::byte> bytes, std::size_t k, std::span<float> out);

/// random_k: k values at random indices, times d/k to make them unbiased, or as they are if
/// `damped`. The 8-byte seed is written instead of the indices. Draws from `rng` once.
std::size_t random_k_size(std::size_t k);
void encode_random_k(std::span<const float> values, std::size_t k, bool damped, Rng& rng,
                     std::span<std::byte> bytes);
/// `encoded` must have random_k_size(k) bytes. Returns false if a value is not finite.
bool decode_random_k(std::span<const std::byte> encoded, std::size_t k, std::span<float> out);

}  // namespace gv
