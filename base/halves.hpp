// Stores floats in two bytes each, as half precision or bfloat16.
#pragma once

#include <cstddef>
#include <span>

namespace gv {

/// Writes `values` into `out`: two bytes each, little-endian, rounded to nearest even. A value that
/// is out of range becomes infinity.
void encode_fp16(std::span<const float> values, std::span<std::byte> out);
void encode_bf16(std::span<const float> values, std::span<std::byte> out);

/// Writes each value to `out`, rounded to the nearest bfloat16, ties to even. `out` may be the
/// memory of `values`.
void round_to_bf16(std::span<const float> values, float* out);

/// Reads out.size() values that encode_fp16() or encode_bf16() wrote.
void decode_fp16(std::span<const std::byte> bytes, std::span<float> out);
void decode_bf16(std::span<const std::byte> bytes, std::span<float> out);

}  // namespace gv
