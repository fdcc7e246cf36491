// The number types in model files, and their conversion from and to float32.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace gv {

enum class NumberType { f32, f16, bf16, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean };

/// A number type's names in messages and in safetensors files, and the length of one number.
struct NumberTypeFacts {
  NumberType type;
  std::string_view name;         ///< The name in messages, for example "f16".
  std::string_view safetensors;  ///< The name in safetensors files, for example "F16".
  std::size_t bytes;
};
inline constexpr std::array number_types = {
    NumberTypeFacts{NumberType::f32, "f32", "F32", 4},
    NumberTypeFacts{NumberType::f16, "f16", "F16", 2},
    NumberTypeFacts{NumberType::bf16, "bf16", "BF16", 2},
    NumberTypeFacts{NumberType::f64, "f64", "F64", 8},
    NumberTypeFacts{NumberType::i8, "i8", "I8", 1},
    NumberTypeFacts{NumberType::i16, "i16", "I16", 2},
    NumberTypeFacts{NumberType::i32, "i32", "I32", 4},
    NumberTypeFacts{NumberType::i64, "i64", "I64", 8},
    NumberTypeFacts{NumberType::u8, "u8", "U8", 1},
    NumberTypeFacts{NumberType::u16, "u16", "U16", 2},
    NumberTypeFacts{NumberType::u32, "u32", "U32", 4},
    NumberTypeFacts{NumberType::u64, "u64", "U64", 8},
    NumberTypeFacts{NumberType::boolean, "bool", "BOOL", 1}};

constexpr const NumberTypeFacts& facts_of(NumberType type) {
  return number_types[static_cast<std::size_t>(type)];
}
constexpr std::size_t bytes_of(NumberType type) { return facts_of(type).bytes; }
constexpr std::string_view to_string(NumberType type) { return facts_of(type).name; }

/// The type that safetensors files call `name`; nullopt if that type is not supported.
std::optional<NumberType> safetensors_type(std::string_view name);

/// Reads out.size() little-endian numbers from `bytes`, which must have bytes_of(type) bytes for
/// each. An f64 is rounded to the nearest float32 and may become infinite. Returns false if an
/// integer has no exact float32 value; `out` must then not be used.
bool read_numbers(NumberType type, std::span<const std::byte> bytes, std::span<float> out);

/// Writes the values to `out` as little-endian f32, f16 or bf16, rounded to nearest even. `out`
/// must have bytes_of(type) bytes for each. A finite value that is too large for the type is
/// written as infinity; the function then returns false.
bool write_numbers(NumberType type, std::span<const float> values, std::span<std::byte> out);

}  // namespace gv
