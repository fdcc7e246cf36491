// Floats in two bytes each: half precision and bfloat16.
#pragma once

#include <cstddef>
#include <span>

namespace gv {

/// Writes `values` into `out`: two bytes each, little-endian, rounded to nearest even. A value out
/// of range becomes infinity.
void encode_fp16(std::span<const float> values, std::span<std::byte> out);
void encode_bf16(std::span<const float> values, std::span<std::byte> out);

/// Rounds to the nearest bfloat16, even in a tie; `out` may be where the values are.
void round_to_bf16(std::span<const float> values, float* out);

/// Reads out.size() values that encode_fp16() or encode_bf16() wrote.
void decode_fp16(std::span<const std::byte> bytes, std::span<float> out);
void decode_bf16(std::span<const std::byte> bytes, std::span<float> out);

}  // namespace gv
