// Codecs that keep some values and leave the others out: the largest, or drawn ones.
#pragma once

#include <cstddef>
#include <span>

#include "base/rng.hpp"

namespace gv {

// Stich 2018. k is at least 1 and at most the number of values, which is at least 1.

/// top_k: the k largest magnitudes with their places; of equal ones those of smaller index.
std::size_t top_k_size(std::size_t elements, std::size_t k);
void encode_top_k(std::span<const float> values, std::size_t k, Rng& rng, std::span<std::byte> out);
/// False if the bytes are no such code.
bool decode_top_k(std::span<const std::byte> bytes, std::size_t k, std::span<float> out);

/// random_k in its unbiased form: k drawn values times d/k. The seed is written, 8 bytes, and no
/// index. Draws from `rng` once.
std::size_t random_k_size(std::size_t k);
void encode_random_k(std::span<const float> values, std::size_t k, Rng& rng,
                     std::span<std::byte> bytes);
/// Reads as many bytes as k values take. False if a value is not finite.
bool decode_random_k(std::span<const std::byte> encoded, std::size_t k, std::span<float> out);

}  // namespace gv
