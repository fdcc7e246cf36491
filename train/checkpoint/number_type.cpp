// Conversions between float32 and the other types of numbers.
#include "train/checkpoint/number_type.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/check.hpp"
#include "base/halves.hpp"
#include "base/number_at.hpp"

namespace gv {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie in files");

constexpr bool are_in_order() {
  for (std::size_t i = 0; i < number_types.size(); ++i) {
    if (static_cast<std::size_t>(number_types[i].type) != i) return false;
  }
  return true;
}
static_assert(are_in_order(), "facts_of() finds a type by its number");

/// True if `number` stays the same when it is converted to float32 and back.
template <class Whole>
bool is_exact(Whole number) {
  constexpr int digits = 24;  // Bits of a float32's mantissa.
  std::uint64_t magnitude = static_cast<std::uint64_t>(number);
  if constexpr (std::is_signed_v<Whole>) {
    if (number < 0) magnitude = 0 - magnitude;
  }
  return magnitude == 0 || std::bit_width(magnitude) - std::countr_zero(magnitude) <= digits;
}

/// Reads the numbers one by one, because the bytes may not be aligned for the numbers' type.
template <class Number>
bool read_as(std::span<const std::byte> bytes, std::span<float> out) {
  bool exact = true;
  const std::byte* from = bytes.data();
  for (float& value : out) {
    const auto number = number_at<Number>(from);
    from += sizeof number;
    value = static_cast<float>(number);
    if constexpr (std::is_integral_v<Number>) exact = exact && is_exact(number);
  }
  return exact;
}

bool read_booleans(std::span<const std::byte> bytes, std::span<float> out) {
  std::ranges::transform(bytes, out.begin(),
                         [](std::byte byte) { return byte == std::byte{} ? 0.0F : 1.0F; });
  return true;
}

}  // namespace

std::optional<NumberType> safetensors_type(std::string_view name) {
  const auto found = std::ranges::find(number_types, name, &NumberTypeFacts::safetensors);
  if (found == number_types.end()) return std::nullopt;
  return found->type;
}

bool read_numbers(NumberType type, std::span<const std::byte> bytes, std::span<float> out) {
  check(bytes.size() == out.size() * bytes_of(type), "each number has the bytes of its type");
  switch (type) {
    case NumberType::f32:
      return read_as<float>(bytes, out);
    case NumberType::f16:
      decode_fp16(bytes, out);
      return true;
    case NumberType::bf16:
      decode_bf16(bytes, out);
      return true;
    case NumberType::f64:
      return read_as<double>(bytes, out);
    case NumberType::i8:
      return read_as<std::int8_t>(bytes, out);
    case NumberType::i16:
      return read_as<std::int16_t>(bytes, out);
    case NumberType::i32:
      return read_as<std::int32_t>(bytes, out);
    case NumberType::i64:
      return read_as<std::int64_t>(bytes, out);
    case NumberType::u8:
      return read_as<std::uint8_t>(bytes, out);
    case NumberType::u16:
      return read_as<std::uint16_t>(bytes, out);
    case NumberType::u32:
      return read_as<std::uint32_t>(bytes, out);
    case NumberType::u64:
      return read_as<std::uint64_t>(bytes, out);
    case NumberType::boolean:
      return read_booleans(bytes, out);
  }
  return false;
}

bool write_numbers(NumberType type, std::span<const float> values, std::span<std::byte> out) {
  check(out.size() == values.size() * bytes_of(type), "each number has the bytes of its type");
  if (type == NumberType::f32) {
    if (!values.empty()) std::memcpy(out.data(), values.data(), values.size_bytes());
    return true;
  }
  check(type == NumberType::f16 || type == NumberType::bf16, "models are written as floats");
  const bool is_half = type == NumberType::f16;
  (is_half ? encode_fp16 : encode_bf16)(values, out);
  // The smallest magnitude that rounds to infinity.
  const float bound = is_half ? 65520.0F : std::bit_cast<float>(0x7f7f8000U);
  return std::ranges::none_of(
      values, [bound](float value) { return std::isfinite(value) && std::abs(value) >= bound; });
}

}  // namespace gv
