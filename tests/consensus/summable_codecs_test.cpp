// Codecs for sums obey their laws: right on average, with the variance that their formula gives.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <set>
#include <vector>

#include "base/rng.hpp"
#include "consensus/codec/codec.hpp"

namespace gv {
namespace {

constexpr std::initializer_list<Codec> codecs = {Codec::identity, Codec::fp16, Codec::bf16,
                                                 Codec::qsgd8, Codec::qsgd4};

int levels_of(Codec codec) { return codec == Codec::qsgd8 ? 127 : 7; }

std::vector<std::byte> encoded(Codec codec, const std::vector<float>& values, Rng& rng) {
  std::vector<std::byte> bytes(encoded_size(codec, values.size()));
  encode(codec, values, rng, bytes);
  return bytes;
}

/// Encodes and decodes the values. Returns an empty vector if the bytes are refused.
std::vector<float> passed_through(Codec codec, const std::vector<float>& values, Rng& rng) {
  std::vector<float> result(values.size());
  if (!decode(codec, encoded(codec, values, rng), result)) return {};
  return result;
}

std::vector<float> normals(std::size_t n, Rng& rng) {
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

double squares(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

double largest(const std::vector<float>& values) {
  double found = 0;
  for (const float value : values) found = std::max(found, std::abs(static_cast<double>(value)));
  return found;
}

/// The variance of each value in one bucket: (m/s)^2 f(1-f). Here m is the largest magnitude, s the
/// number of levels, and f a value's fraction of the way to the next level.
std::vector<double> qsgd_variances(const std::vector<float>& values, int levels) {
  const double step = largest(values) / levels;
  std::vector<double> variances;
  for (const float value : values) {
    const double level = std::abs(value) / step;
    const double fraction = level - std::floor(level);
    variances.push_back(step * step * fraction * (1 - fraction));
  }
  return variances;
}

}  // namespace

TEST_CASE("rounding at random is right on average and varies as its formula says") {
  const Codec codec = GENERATE(Codec::qsgd8, Codec::qsgd4);
  const std::size_t size = GENERATE(1, 2, 100, 512);
  constexpr int rounds = 4000;
  Rng rng(size);
  const std::vector<float> values = normals(size, rng);
  const std::vector<double> variances = qsgd_variances(values, levels_of(codec));
  std::vector<double> sums(size), errors(size);
  for (int round = 0; round < rounds; ++round) {
    const std::vector<float> result = passed_through(codec, values, rng);
    for (std::size_t i = 0; i < size; ++i) {
      sums[i] += result[i];
      errors[i] += std::pow(static_cast<double>(result[i]) - values[i], 2);
    }
  }
  double error = 0;
  double variance = 0;
  for (std::size_t i = 0; i < size; ++i) {
    // The margin is four standard errors of the mean, or five if 512 means are checked, plus the
    // rounding to float.
    const double off = (size == 512 ? 5 : 4) * std::sqrt(variances[i] / rounds) + 1e-6;
    CHECK(std::abs(sums[i] / rounds - values[i]) <= off);
    error += errors[i] / rounds;
    variance += variances[i];
  }
  // The mean of 4000 squared errors is accurate to a tenth for one value, and more accurate for
  // several.
  CHECK(error == Approx(variance).epsilon(0.1).margin(1e-7));
  CHECK(variance <= (codec == Codec::qsgd4 ? 0.1 : 0.0004) * squares(values));
}

TEST_CASE("rounding at random is never worse than its bound") {
  // The worst case is one large value, with all others at about a quarter of the first level.
  for (const Codec codec : {Codec::qsgd8, Codec::qsgd4}) {
    const double bound = codec == Codec::qsgd4 ? 1.2 : 0.008;
    double worst = 0;
    for (int percent = 1; percent < 100; ++percent) {
      std::vector<float> values(512, 0.01f * static_cast<float>(percent));
      values.front() = static_cast<float>(levels_of(codec));
      double variance = 0;
      for (const double value : qsgd_variances(values, levels_of(codec))) variance += value;
      worst = std::max(worst, variance / squares(values));
    }
    CHECK(worst <= bound);
    CHECK(worst > 0.9 * bound);
  }
}

TEST_CASE("a value goes to one of the two levels beside it") {
  const Codec codec = GENERATE(Codec::qsgd8, Codec::qsgd4);
  Rng rng(5);
  for (int i = 0; i < 10000; ++i) {
    std::vector<float> values = normals(1 + rng.below(20), rng);
    const auto scale = static_cast<float>(std::ldexp(1.0, static_cast<int>(rng.below(200)) - 100));
    for (float& value : values) value *= rng.chance(0.2) ? 0 : scale;
    const std::vector<float> result = passed_through(codec, values, rng);
    REQUIRE(result.size() == values.size());
    const double step = largest(values) / levels_of(codec);
    for (std::size_t j = 0; j < values.size(); ++j) {
      REQUIRE(std::abs(static_cast<double>(result[j]) - values[j]) <= step * (1 + 1e-5));
      REQUIRE(result[j] * values[j] >= 0);
    }
  }
}

TEST_CASE("every bucket of 512 has its own scale") {
  Rng rng(6);
  std::vector<float> values(1024, 0.0f);
  values[3] = 1e20f;
  values[700] = -1e-20f;
  for (const Codec codec : {Codec::qsgd8, Codec::qsgd4}) {
    // A value alone in its bucket gets the last level.
    CHECK(passed_through(codec, values, rng) == values);
  }
}

TEST_CASE("zeros stay zeros and the largest and smallest numbers are kept") {
  Rng rng(7);
  const Codec codec = GENERATE(Codec::qsgd8, Codec::qsgd4);
  const float largest = std::numeric_limits<float>::max();
  const float smallest = std::numeric_limits<float>::denorm_min();
  CHECK(passed_through(codec, std::vector<float>(600), rng) == std::vector<float>(600));
  for (const float value : {largest, -largest, smallest, -smallest, 1.0f}) {
    CHECK(passed_through(codec, {value}, rng) == std::vector{value});
    CHECK(passed_through(codec, {0, value, 0}, rng) == std::vector{0.0f, value, 0.0f});
  }
}

TEST_CASE("sizes are exact") {
  for (const std::size_t n : {0u, 1u, 2u, 511u, 512u, 513u, 1025u}) {
    CHECK(encoded_size(Codec::identity, n) == 4 * n);
    CHECK(encoded_size(Codec::fp16, n) == 2 * n);
    CHECK(encoded_size(Codec::bf16, n) == 2 * n);
    const std::size_t scales = 4 * ((n + 511) / 512);
    CHECK(encoded_size(Codec::qsgd8, n) == scales + n);
    CHECK(encoded_size(Codec::qsgd4, n) == scales + (n + 1) / 2);
  }
}

TEST_CASE("what is not finite is refused by every codec wherever it stands") {
  const Codec codec = GENERATE(values(codecs));
  const float bad = GENERATE(values({std::numeric_limits<float>::infinity(),
                                     -std::numeric_limits<float>::infinity(), std::nanf("")}));
  Rng rng(8);
  for (const std::size_t place : {0u, 511u, 512u, 599u}) {
    std::vector<float> values(600, 1.0f);
    CHECK(passed_through(codec, values, rng).size() == 600);
    values[place] = bad;
    CHECK(passed_through(codec, values, rng).empty());
  }
}

TEST_CASE("what can be written is what can be read") {
  Rng rng(8);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const Codec codec : codecs) {
    for (const float value : {0.0f, -65504.0f, 65536.0f, 0x1.fep127f, -0x1.fffffep127f, infinity,
                              -infinity, std::numeric_limits<float>::quiet_NaN()}) {
      const std::vector<float> values = {1, value, 2};
      INFO(to_string(codec.kind) << ' ' << value);
      CHECK(is_writable(codec, values) == !passed_through(codec, values, rng).empty());
    }
  }
}

TEST_CASE("bytes of another size are refused") {
  const Codec codec = GENERATE(values(codecs));
  Rng rng(9);
  std::vector<std::byte> bytes = encoded(codec, normals(600, rng), rng);
  std::vector<float> out(600);
  CHECK(decode(codec, bytes, out));
  CHECK_FALSE(decode(codec, std::span(bytes).first(bytes.size() - 1), out));
  bytes.push_back({});
  CHECK_FALSE(decode(codec, bytes, out));
}

TEST_CASE("a negative scale is refused") {
  Rng rng(9);
  for (const Codec codec : {Codec::qsgd8, Codec::qsgd4}) {
    std::vector<std::byte> bytes = encoded(codec, {1, 2, 3}, rng);
    std::vector<float> out(3);
    CHECK(decode(codec, bytes, out));
    bytes[3] |= std::byte{0x80};
    CHECK_FALSE(decode(codec, bytes, out));
  }
}

TEST_CASE("the same generator rounds the same way and exact codecs draw nothing") {
  Rng rng(10);
  const std::vector<float> values = normals(600, rng);
  for (const Codec codec : codecs) {
    Rng one(11), other(11);
    CHECK(encoded(codec, values, one) == encoded(codec, values, other));
    const bool is_random = codec == Codec::qsgd8 || codec == Codec::qsgd4;
    CHECK((one.next() == Rng(11).next()) == !is_random);
  }
}

TEST_CASE("the mean of what a summable codec can write can be written too") {
  constexpr float limit = std::numeric_limits<float>::max();
  for (const NamedCodec& row : summable_codecs) {
    INFO(row.name);
    // The largest number that can be encoded, found by bisection over its bits.
    std::uint32_t good = 0;
    for (std::uint32_t bit = 1u << 30; bit != 0; bit >>= 1) {
      const float value = std::bit_cast<float>(good | bit);
      if (value <= limit && is_writable(row.codec, {&value, 1})) good |= bit;
    }
    const std::vector<float> most(3, std::bit_cast<float>(good));
    Rng rng(12);
    CHECK(passed_through(row.codec, most, rng).size() == 3);
    const std::vector<float> mean(3, static_cast<float>((2.0 * most[0] - most[0]) / 3));
    CHECK(is_writable(row.codec, mean));
    CHECK(passed_through(row.codec, mean, rng).size() == 3);
  }
}

TEST_CASE("summable codecs of fixed width come first and have names of their own") {
  std::set<std::string_view> names;
  for (const NamedCodec& row : summable_codecs) {
    CHECK(names.insert(row.name).second);
    CHECK(traits_of(row.codec, 512).summable);
    const bool is_first = &row - summable_codecs.data() < std::ssize(fixed_width_codecs());
    CHECK((bytes_per_element(row.codec) > 0) == is_first);
    if (is_first) CHECK(row.name == to_string(row.codec.kind));
  }
}

}  // namespace gv
