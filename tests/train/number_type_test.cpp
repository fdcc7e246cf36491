// Two-byte floats and whole numbers become float32 and back exactly, or are refused.
#include "train/checkpoint/number_type.hpp"

#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

namespace gv {
namespace {

/// A two-byte float: the type, and the lengths of its parts.
struct Halves {
  NumberType type;
  int exponent_bits;
  int mantissa_bits;

  bool is_finite(std::uint16_t bits) const {
    const unsigned all = (1U << exponent_bits) - 1;
    return ((bits >> mantissa_bits) & all) != all;
  }

  /// The number that the bits represent by the definition of IEEE 754.
  double meaning(std::uint16_t bits) const {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const int whole = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
    const double magnitude = std::ldexp(whole, std::max(exponent, 1) - bias - mantissa_bits);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }
};

template <class Number>
std::vector<float> read_all(NumberType type, const std::vector<Number>& numbers, bool& exact) {
  std::vector<float> values(numbers.size());
  exact = read_numbers(type, std::as_bytes(std::span(numbers)), values);
  return values;
}

std::vector<std::uint16_t> written(NumberType type, const std::vector<float>& values, bool& fits) {
  std::vector<std::uint16_t> bits(values.size());
  fits = write_numbers(type, values, std::as_writable_bytes(std::span(bits)));
  return bits;
}

}  // namespace

TEST_CASE("all 65536 two-byte floats mean what IEEE 754 says and come back", "[unit]") {
  const Halves halves = GENERATE(Halves{NumberType::f16, 5, 10}, Halves{NumberType::bf16, 8, 7});
  std::vector<std::uint16_t> all;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    all.push_back(static_cast<std::uint16_t>(bits));
  }
  bool sound = false;
  const std::vector<float> values = read_all(halves.type, all, sound);
  REQUIRE(sound);
  const std::vector<std::uint16_t> back = written(halves.type, values, sound);
  REQUIRE(sound);
  std::size_t wrong = 0;
  for (const std::uint16_t bits : all) {
    const double meaning = halves.meaning(bits);
    if (halves.is_finite(bits)) {
      // Bits must also be equal, because zero has a sign.
      if (static_cast<double>(values[bits]) != meaning || back[bits] != bits) ++wrong;
    } else if (std::isnan(values[bits])) {
      const float again = read_all(halves.type, std::vector{back[bits]}, sound).front();
      if (!std::isnan(again)) ++wrong;
    } else if (back[bits] != bits) {
      ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("floats between two-byte ones are rounded to the nearest and ties to even", "[unit]") {
  const Halves halves = GENERATE(Halves{NumberType::f16, 5, 10}, Halves{NumberType::bf16, 8, 7});
  std::size_t wrong = 0;
  for (std::uint16_t bits = 0; halves.is_finite(static_cast<std::uint16_t>(bits + 1)); ++bits) {
    const auto next = static_cast<std::uint16_t>(bits + 1);
    // Both types have so few bits that a float holds the midpoint between two neighbours exactly.
    const auto middle = static_cast<float>((halves.meaning(bits) + halves.meaning(next)) / 2);
    const std::vector<float> around = {std::nextafter(middle, 0.0F), middle,
                                       std::nextafter(middle, std::numeric_limits<float>::max())};
    bool fits = false;
    const auto found = written(halves.type, around, fits);
    const std::uint16_t even = bits % 2 == 0 ? bits : next;
    if (!fits || found != std::vector<std::uint16_t>{bits, even, next}) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("a float that a two-byte type would make infinite is reported", "[unit]") {
  bool fits = false;
  CHECK(written(NumberType::f16, {65519.0F}, fits).front() == 0x7bff);
  CHECK(fits);
  CHECK(written(NumberType::f16, {-65520.0F}, fits).front() == 0xfc00);
  CHECK_FALSE(fits);
  const float largest = std::bit_cast<float>(0x7f7f7fffU);
  CHECK(written(NumberType::bf16, {largest}, fits).front() == 0x7f7f);
  CHECK(fits);
  (void)written(NumberType::bf16, {std::nextafter(largest, INFINITY)}, fits);
  CHECK_FALSE(fits);
  // A value that is already infinite is not too large for the type.
  (void)written(NumberType::f16, {INFINITY, NAN}, fits);
  CHECK(fits);
}

TEST_CASE("whole numbers are read if a float holds them and refused otherwise", "[unit]") {
  bool exact = false;
  constexpr std::int64_t limit = 1 << 24;
  CHECK(read_all<std::int64_t>(NumberType::i64, {-limit, limit, 0, limit * 6}, exact) ==
        std::vector<float>{-16777216.0F, 16777216.0F, 0.0F, 100663296.0F});
  CHECK(exact);
  for (const std::int64_t number : {limit + 1, -limit - 1, std::int64_t{INT64_MAX}}) {
    (void)read_all<std::int64_t>(NumberType::i64, {number}, exact);
    CHECK_FALSE(exact);
  }
  CHECK(read_all<std::int64_t>(NumberType::i64, {INT64_MIN}, exact).front() == -0x1p63F);
  CHECK(exact);
  CHECK(read_all<std::int8_t>(NumberType::i8, {-128, 127}, exact) == std::vector<float>{-128, 127});
  CHECK(read_all<std::uint8_t>(NumberType::u8, {255}, exact).front() == 255);
  CHECK(read_all<std::int16_t>(NumberType::i16, {-32768}, exact).front() == -32768);
  CHECK(read_all<std::uint16_t>(NumberType::u16, {65535}, exact).front() == 65535);
  CHECK(read_all<std::int32_t>(NumberType::i32, {-5}, exact).front() == -5);
  CHECK(read_all<std::uint32_t>(NumberType::u32, {1U << 31}, exact).front() == 0x1p31F);
  CHECK(exact);
  (void)read_all<std::uint64_t>(NumberType::u64, {UINT64_MAX}, exact);
  CHECK_FALSE(exact);
  CHECK(read_all<std::uint8_t>(NumberType::boolean, {0, 1, 2}, exact) ==
        std::vector<float>{0, 1, 1});
  CHECK(read_all<double>(NumberType::f64, {0.1, 1e300}, exact) ==
        std::vector<float>{0.1F, std::numeric_limits<float>::infinity()});
  CHECK(exact);
}

}  // namespace gv
