// Codecs that keep some values and drop the others. They keep the largest values or random ones.
#pragma once

#include <cstddef>
#include <span>

#include "base/rng.hpp"

namespace gv {

// Both codecs follow Stich 2018. k is at least 1 and at most the number of values.

/// Size in bytes of a vector encoded with top_k, which writes the k values of largest magnitude and
/// their indices. On ties the smaller index wins.
std::size_t top_k_size(std::size_t elements, std::size_t k);
void encode_top_k(std::span<const float> values, std::size_t k, Rng& rng, std::span<std::byte> out);
/// Returns false if the bytes are not an encoded top_k vector.
bool decode_top_k(std::span<const std::byte> bytes, std::size_t k, std::span<float> out);

/// Size in bytes of a vector encoded with random_k, which writes an 8-byte seed and k values. The
/// seed determines the random indices of these values. Of d values, the k written ones are
/// multiplied by d/k to make them unbiased, unless `damped`. Encoding draws from `rng` once.
std::size_t random_k_size(std::size_t k);
void encode_random_k(std::span<const float> values, std::size_t k, bool damped, Rng& rng,
                     std::span<std::byte> bytes);
/// `encoded` must have random_k_size(k) bytes. Returns false if a value is not finite.
bool decode_random_k(std::span<const std::byte> encoded, std::size_t k, std::span<float> out);

}  // namespace gv
