// Converts floats to and from half precision and bfloat16, with the same bits on all machines.
#include "base/halves.hpp"

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/wide.hpp"

namespace gv {
namespace {

static_assert(std::endian::native == std::endian::little,
              "payloads are written as they lie in memory");

/// Returns the half-precision bits of `value`, rounded to nearest even. Overflow becomes infinity;
/// NaN stays NaN.
std::uint16_t to_fp16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint16_t sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  // 65520 is the smallest number that rounds up to 2^16, which half precision cannot hold.
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // A subnormal result: adding 0.5 aligns the mantissa so that the hardware does the rounding.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000u));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  const std::uint32_t rounded = magnitude - 0x38000000u + 0xfffu + odd;
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

float from_fp16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  }
  // Scaling by 2^112 turns the half's exponent into the float's. This works for subnormals too.
  const float scaled = std::bit_cast<float>(magnitude << 13) * std::bit_cast<float>(0x77800000u);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign);
}

std::uint16_t to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float from_bf16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

template <auto convert>
void encode_halves(std::span<const float> values, std::span<std::byte> out) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half = convert(values[i]);
    std::memcpy(out.data() + 2 * i, &half, 2);
  }
}

template <auto convert>
void decode_halves(std::span<const std::byte> bytes, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes.data() + 2 * i, 2);
    out[i] = convert(half);
  }
}

}  // namespace

void encode_fp16(std::span<const float> values, std::span<std::byte> out) {
  encode_halves<to_fp16>(values, out);
}

void encode_bf16(std::span<const float> values, std::span<std::byte> out) {
  encode_halves<to_bf16>(values, out);
}

GV_WIDE void round_to_bf16(std::span<const float> values, float* out) {
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = from_bf16(to_bf16(values[i]));
}

void decode_fp16(std::span<const std::byte> bytes, std::span<float> out) {
  decode_halves<from_fp16>(bytes, out);
}

void decode_bf16(std::span<const std::byte> bytes, std::span<float> out) {
  decode_halves<from_bf16>(bytes, out);
}

}  // namespace gv
