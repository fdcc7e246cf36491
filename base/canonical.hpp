// Encodes a plain struct for signatures: equal structs give the same bytes on every machine.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/fields.hpp"

namespace gv {

/// Appends values one after another. Numbers are little-endian in their full width. An optional
/// begins with one byte that says whether it has a value; a string or a list begins with its 32-bit
/// length. A struct's fields follow in the order of their declaration. In a struct with varints
/// (see HasVarints), 64-bit numbers and lengths are written in groups of seven bits, lowest group
/// first. Every group but the last has its highest bit set. (Network messages use the same layout.)
/// Two values of one type have the same bytes only if they are equal.
class CanonicalBytes {
 public:
  /// `domain` names the purpose and the version of the encoding. Bytes of one domain are never
  /// valid in another.
  explicit CanonicalBytes(std::string_view domain) {
    bytes_.reserve(bytes_usual);
    add(domain);
  }

  template <class... Parts>
  void add(const Parts&... parts) {
    (add_one(parts), ...);
  }

  const std::vector<std::byte>& bytes() const& { return bytes_; }
  std::vector<std::byte> bytes() && { return std::move(bytes_); }

 private:
  /// Initial capacity. Most signed structs are no longer than this.
  static constexpr std::size_t bytes_usual = 256;

  template <class Number>
  requires std::unsigned_integral<Number>
  void append(Number bits) {
    std::array<std::byte, sizeof bits> bytes{};
    for (std::size_t i = 0; i < sizeof bits; ++i) {
      bytes[i] = static_cast<std::byte>(static_cast<std::uint64_t>(bits) >> (8 * i) & 0xff);
    }
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }

  void append_varint(std::uint64_t value) {
    for (; value > 0x7f; value >>= 7) {
      bytes_.push_back(static_cast<std::byte>((value & 0x7f) | 0x80));
    }
    bytes_.push_back(static_cast<std::byte>(value));
  }

  void add_one(bool value) { append(static_cast<std::uint8_t>(value)); }
  void add_one(float value) { append(std::bit_cast<std::uint32_t>(value)); }
  void add_one(double value) { append(std::bit_cast<std::uint64_t>(value)); }
  template <std::integral Number>
  void add_one(Number value) {
    append(static_cast<std::make_unsigned_t<Number>>(value));
  }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void add_one(Enum value) { add_one(static_cast<std::underlying_type_t<Enum>>(value)); }
  template <class First, class Second>
  void add_one(const std::pair<First, Second>& pair) {
    add(pair.first, pair.second);
  }
  template <class Value>
  void add_one(const std::optional<Value>& value) {
    add_one(value.has_value());
    if (value) add_one(*value);
  }
  template <class Range>
  requires requires(const Range& range) { std::begin(range); }
  void add_one(const Range& range) {
    constexpr bool has_fixed_size = requires { std::tuple_size<Range>::value; };
    if constexpr (!has_fixed_size) append(static_cast<std::uint32_t>(std::size(range)));
    for (const auto& element : range) add_one(element);
  }
  template <PlainStruct Struct>
  void add_one(const Struct& value) {
    std::apply(
        [this](const auto&... fields) {
          if constexpr (HasVarints<Struct>) {
            (this->add_with_varints(fields), ...);
          } else {
            this->add(fields...);
          }
        },
        fields_of(value));
  }
  /// Adds a field of a struct with varints.
  template <class Field>
  void add_with_varints(const Field& field) {
    if constexpr (std::is_same_v<Field, std::uint64_t>) {
      append_varint(field);
    } else {
      add_one(field);
    }
  }
  template <class Element>
  void add_with_varints(const std::vector<Element>& list) {
    append_varint(list.size());
    for (const Element& element : list) add_one(element);
  }

  std::vector<std::byte> bytes_;
};

/// Encodes one value in a domain.
template <class Value>
std::vector<std::byte> canonical_bytes(std::string_view domain, const Value& value) {
  CanonicalBytes bytes(domain);
  bytes.add(value);
  return std::move(bytes).bytes();
}

}  // namespace gv
