// Pairings are fair and the same at all peers. Codecs and norms are exact to the bit.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

#include "base/comparison.hpp"
#include "base/magnitude.hpp"
#include "consensus/codec/codec.hpp"
#include "consensus/topology/pairing.hpp"

namespace gv {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

View view_of(std::size_t n) {
  std::vector<PeerId> peers;
  // The ids are large and unordered, because nothing may depend on small or consecutive ids.
  for (std::size_t i = 0; i < n; ++i) peers.push_back(PeerId{(i * 7919 + 13) % 100003 + 1});
  return View(peers);
}

/// Chi-squared of counts that should all be equal.
double chi_squared(const std::map<PeerId, int>& counts, std::size_t cells, double expected) {
  // The sum over the cells that were never drawn.
  double sum = static_cast<double>(cells - counts.size()) * expected;
  for (const auto& [peer, count] : counts) sum += std::pow(count - expected, 2) / expected;
  return sum;
}

/// The value that chi-squared exceeds once in a thousand times (Wilson and Hilferty's
/// approximation).
double chi_squared_limit(double freedom) {
  const double spread = 2 / (9 * freedom);
  return freedom * std::pow(1 - spread + 3.09 * std::sqrt(spread), 3);
}

std::uint16_t encoded_bits(Codec codec, float value) {
  std::uint16_t half = 0;
  encode_each(codec, {&value, 1}, std::as_writable_bytes(std::span(&half, 1)));
  return half;
}

float decoded_value(Codec codec, std::uint16_t half) {
  float value = 0;
  decode_each(codec, std::as_bytes(std::span(&half, 1)), {&value, 1});
  return value;
}

/// A 16-bit floating-point format, and the numbers that define it.
struct Format {
  Codec codec;
  int mantissa;        ///< Number of stored mantissa bits.
  int smallest;        ///< Exponent of the smallest normal number.
  int largest;         ///< Exponent of the largest numbers.
  std::uint16_t inf;   ///< Bit pattern of +infinity.
  double worst_error;  ///< Largest relative error of a normal number.
};

constexpr Format fp16{Codec::fp16, 10, -14, 15, 0x7c00, 0x1p-11};
constexpr Format bf16{Codec::bf16, 7, -126, 127, 0x7f80, 0x1p-8};

/// Rounds in double arithmetic to a multiple of the unit in the last place at this magnitude. Every
/// operation is exact except std::nearbyint, which rounds ties to even.
double reference(const Format& format, float value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), format.smallest);
  const double unit = std::ldexp(1.0, exponent - format.mantissa);
  const double rounded = std::nearbyint(value / unit) * unit;
  const bool overflows = std::abs(rounded) >= std::ldexp(1.0, format.largest + 1);
  return overflows ? std::copysign(infinity, value) : rounded;
}

/// True if both are the same number with the same sign, so 0 and -0 differ.
bool is_same(double a, double b) { return a == b && std::signbit(a) == std::signbit(b); }

}  // namespace

TEST_CASE("a matching is perfect and symmetric and one of each pair initiates") {
  for (std::size_t n = 2; n <= 33; ++n) {
    const View view = view_of(n);
    for (std::uint64_t round = 0; round < 20; ++round) {
      std::size_t idle = 0;
      std::size_t wrong = 0;
      for (const PeerId self : view.peers()) {
        const auto match = matching_partner(5, round, view, self);
        if (!match) {
          ++idle;
          continue;
        }
        const auto back = matching_partner(5, round, view, match->partner);
        wrong += match->partner == self || !back || back->partner != self ||
                 back->initiates == match->initiates;
      }
      INFO("peers " << n << " round " << round);
      CHECK(wrong == 0);
      CHECK(idle == n % 2);
    }
  }
}

TEST_CASE("nobody is matched alone or outside the view") {
  CHECK_FALSE(matching_partner(1, 1, View(), PeerId{1}));
  CHECK_FALSE(matching_partner(1, 1, View({PeerId{1}}), PeerId{1}));
  CHECK_FALSE(matching_partner(1, 1, view_of(8), PeerId{999999}));
}

TEST_CASE("a matching depends on the seed and on the round") {
  const View view = view_of(16);
  const auto partners = [&](std::uint64_t seed, std::uint64_t round) {
    std::vector<PeerId> all;
    for (const PeerId self : view.peers()) {
      all.push_back(matching_partner(seed, round, view, self)->partner);
    }
    return all;
  };
  CHECK(partners(1, 1) == partners(1, 1));
  CHECK(partners(1, 1) != partners(2, 1));
  CHECK(partners(1, 1) != partners(1, 2));
  CHECK(partners(1, 2) != partners(2, 1));
}

TEST_CASE("a matching gives every partner equally often and either role half of the time") {
  const std::size_t n = GENERATE(8, 9);
  const View view = view_of(n);
  const PeerId self = view.peers()[3];
  constexpr int rounds = 14000;
  std::map<PeerId, int> counts;
  int met = 0;
  int initiated = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto match = matching_partner(11, static_cast<std::uint64_t>(round), view, self);
    if (!match) continue;
    ++met;
    ++counts[match->partner];
    initiated += match->initiates;
  }
  CHECK(counts.count(self) == 0);
  // Rounds are independent draws, so the counts are multinomial. A fair draw fails this check once
  // in 1000.
  const double freedom = static_cast<double>(n) - 2;
  CHECK(chi_squared(counts, n - 1, met / (freedom + 1)) < chi_squared_limit(freedom));
  // The margin is four standard errors of a fair coin. If n is odd, a peer has no partner once in n
  // rounds, which is checked in the same way.
  CHECK(std::abs(initiated - met / 2.0) < 4 * std::sqrt(met / 4.0));
  const double idle = n % 2 == 0 ? 0 : 1.0 / static_cast<double>(n);
  CHECK(std::abs(rounds - met - rounds * idle) <= 4 * std::sqrt(rounds * idle * (1 - idle)));
}

TEST_CASE("a uniform partner is never oneself and every other is equally likely") {
  const View view = view_of(9);
  // The first, middle and last peer of the sorted view, and one that is not in it.
  const PeerId self =
      GENERATE_COPY(values({view.peers()[0], view.peers()[4], view.peers()[8], PeerId{5}}));
  const std::size_t others = view.contains(self) ? 8 : 9;
  Rng rng(3);
  std::map<PeerId, int> counts;
  constexpr int draws = 18000;
  for (int i = 0; i < draws; ++i) ++counts[*uniform_partner(view, self, rng)];
  CHECK(counts.count(self) == 0);
  CHECK(counts.size() == others);
  const double expected = static_cast<double>(draws) / static_cast<double>(others);
  CHECK(chi_squared(counts, others, expected) < chi_squared_limit(static_cast<double>(others) - 1));
}

TEST_CASE("there is no uniform partner among nobody else") {
  Rng rng(3);
  CHECK_FALSE(uniform_partner(View(), PeerId{1}, rng));
  CHECK_FALSE(uniform_partner(View({PeerId{1}}), PeerId{1}, rng));
}

TEST_CASE("every 16-bit pattern survives decoding and encoding") {
  const Format format = GENERATE(values({fp16, bf16}));
  int changed = 0;
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = decoded_value(format.codec, half);
    const bool is_nan = (half & 0x7fff) > format.inf;
    const std::uint16_t again = encoded_bits(format.codec, value);
    // A NaN may change its payload, but must remain a NaN with the same sign.
    changed += is_nan ? !std::isnan(value) || (again & 0x7fff) <= format.inf ||
                            ((again ^ half) & 0x8000) != 0
                      : again != half;
  }
  CHECK(changed == 0);
}

TEST_CASE("encoding rounds to nearest even like slow arithmetic does") {
  const Format format = GENERATE(values({fp16, bf16}));
  Rng rng(17);
  int wrong = 0;
  const auto compare = [&](float value) {
    if (std::isnan(value)) return;
    const float result = decoded_value(format.codec, encoded_bits(format.codec, value));
    wrong += !is_same(result, reference(format, value));
  };
  for (int i = 0; i < 100000; ++i) {
    compare(std::bit_cast<float>(static_cast<std::uint32_t>(rng.next())));  // Any float at all.
    // Values in the range of the format, including its subnormals and its overflow.
    compare(static_cast<float>(std::ldexp(rng.normal(), static_cast<int>(rng.below(46)) - 28)));
  }
  // Every tie between neighbouring values, and the floats next to it.
  for (std::uint16_t half = 0; half + 1 < format.inf; ++half) {
    const float low = decoded_value(format.codec, half);
    const float high = decoded_value(format.codec, static_cast<std::uint16_t>(half + 1));
    const auto tie = static_cast<float>((static_cast<double>(low) + high) / 2);
    for (const float value : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, infinity)}) {
      compare(value);
      compare(-value);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("values out of range become infinity with their sign") {
  CHECK(encoded_bits(Codec::fp16, 65519.996f) == 0x7bff);
  CHECK(encoded_bits(Codec::fp16, 65520.0f) == 0x7c00);
  CHECK(encoded_bits(Codec::fp16, -1e30f) == 0xfc00);
  CHECK(encoded_bits(Codec::bf16, std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(encoded_bits(Codec::bf16, -std::numeric_limits<float>::max()) == 0xff80);
  CHECK(encoded_bits(Codec::fp16, infinity) == 0x7c00);
  CHECK(encoded_bits(Codec::bf16, -infinity) == 0xff80);
}

TEST_CASE("the smallest subnormals are kept and half of them is rounded to even") {
  CHECK(encoded_bits(Codec::fp16, 0x1p-24f) == 1);
  CHECK(encoded_bits(Codec::fp16, 0x1p-25f) == 0);
  CHECK(encoded_bits(Codec::fp16, 0x1.8p-24f) == 2);
  CHECK(encoded_bits(Codec::fp16, -0x1p-25f) == 0x8000);
  CHECK(encoded_bits(Codec::bf16, 0x1p-133f) == 1);
  CHECK(encoded_bits(Codec::bf16, 0x1p-134f) == 0);
}

TEST_CASE("a NaN stays a NaN whatever its payload") {
  for (const std::uint32_t bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u}) {
    const float value = std::bit_cast<float>(bits);
    for (const Codec codec : {Codec::identity, Codec::fp16, Codec::bf16}) {
      std::vector<std::byte> bytes(bytes_per_element(codec));
      encode_each(codec, {&value, 1}, bytes);
      float result = 0;
      decode_each(codec, bytes, {&result, 1});
      CHECK(std::isnan(result));
    }
  }
}

TEST_CASE("the relative error of a normal number is at most half a unit in the last place") {
  const Format format = GENERATE(values({fp16, bf16}));
  Rng rng(23);
  double worst = 0;
  for (int i = 0; i < 100000; ++i) {
    const auto value = static_cast<float>(std::ldexp(1 + rng.uniform(), i % 28 - 14));
    const double result = decoded_value(format.codec, encoded_bits(format.codec, value));
    worst = std::max(worst, std::abs(result - value) / value);
  }
  CHECK(worst <= format.worst_error);
  CHECK(worst > format.worst_error * 0.9);  // The bound is nearly reached, so it is tight.
}

TEST_CASE("the identity codec keeps every bit") {
  const std::vector<float> values{0.0f, -0.0f, 1e-45f, -3.5f, infinity};
  std::vector<std::byte> bytes(values.size() * 4);
  encode_each(Codec::identity, values, bytes);
  CHECK(std::memcmp(bytes.data(), values.data(), bytes.size()) == 0);
}

TEST_CASE("decoding gives the same values wherever the bytes lie") {
  const Codec codec = GENERATE(Codec::identity, Codec::fp16, Codec::bf16);
  const std::vector<float> values{1.5f, -2.25f, 0.0f, 768.0f};  // All codecs keep these exact.
  const std::size_t size = values.size() * bytes_per_element(codec);
  for (std::size_t shift = 0; shift < 4; ++shift) {
    std::vector<std::byte> bytes(size + shift);
    encode_each(codec, values, std::span(bytes).subspan(shift));
    std::vector<float> scratch(values.size());
    const auto result = decoded(codec, std::span<const std::byte>(bytes).subspan(shift), scratch);
    CHECK(std::vector<float>(result.begin(), result.end()) == values);
  }
}

namespace {

std::vector<float> normals(std::uint64_t seed, std::size_t n) {
  Rng rng(seed);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

}  // namespace

TEST_CASE("norms agree with wide arithmetic at every length") {
  for (std::size_t n = 0; n < 70; ++n) {
    const auto a = normals(n, n);
    const auto b = normals(n + 1000, n);
    std::vector<float> difference(n);
    Comparison comparison;
    comparison.add(a, b, difference);
    long double theirs = 0, ours = 0, apart = 0;
    for (std::size_t i = 0; i < n; ++i) {
      theirs += static_cast<long double>(a[i]) * a[i];
      ours += static_cast<long double>(b[i]) * b[i];
      const float gap = a[i] - b[i];
      apart += static_cast<long double>(gap) * gap;
      REQUIRE(difference[i] == gap);
    }
    // The tolerance allows for at most 70 additions in double, each accurate to 2^-53 of the sum so
    // far.
    const double tolerance = 1e-14;
    CHECK(comparison.their_norm() ==
          Approx(static_cast<double>(std::sqrt(theirs))).epsilon(tolerance));
    CHECK(comparison.our_norm() == Approx(static_cast<double>(std::sqrt(ours))).epsilon(tolerance));
    CHECK(comparison.distance() ==
          Approx(static_cast<double>(std::sqrt(apart))).epsilon(tolerance));
  }
}

TEST_CASE("both ends get the same bits of distance and opposite differences however cut") {
  constexpr std::size_t n = 1000;
  const auto a = normals(1, n);
  const auto b = normals(2, n);
  std::vector<float> forth(n), back(n);
  Comparison whole;
  whole.add(a, b, forth);
  Rng rng(9);
  for (int cut = 0; cut < 50; ++cut) {
    Comparison pieces;
    for (std::size_t at = 0; at < n;) {
      const std::size_t part = std::min<std::size_t>(n - at, rng.below(90));
      pieces.add(std::span(b).subspan(at, part), std::span(a).subspan(at, part),
                 std::span(back).subspan(at, part));
      at += part;
    }
    CHECK(pieces.distance() == whole.distance());
    CHECK(pieces.their_norm() == whole.our_norm());
    CHECK(pieces.our_norm() == whole.their_norm());
    for (float& value : back) value = -value;
    CHECK(back == forth);
  }
}

TEST_CASE("a value that is not finite shows in the norm wherever it stands") {
  const float bad = GENERATE(values({infinity, -infinity, std::nanf("")}));
  for (const std::size_t place : {0u, 15u, 16u, 31u, 32u, 36u}) {
    auto a = normals(1, 37);
    const auto b = normals(2, 37);
    CHECK(is_finite(a));
    a[place] = bad;
    std::vector<float> difference(37);
    Comparison comparison;
    comparison.add(a, b, difference);
    CHECK_FALSE(std::isfinite(comparison.their_norm()));
    CHECK(std::isfinite(comparison.our_norm()));
    CHECK_FALSE(is_finite(a));
  }
}

TEST_CASE("the clip factor is one within the radius and shrinks to it outside") {
  CHECK(clip_factor(0, 100) == 1);
  CHECK(clip_factor(2, 0) == 1);
  CHECK(clip_factor(2, 2) == 1);
  CHECK(clip_factor(2, 4) == 0.5);
  CHECK(clip_factor(1, 1e9) == 1e-9);
}

TEST_CASE("the smaller radius counts and none is larger than any") {
  CHECK(smaller_radius(0, 0) == 0);
  CHECK(smaller_radius(0, 3) == 3);
  CHECK(smaller_radius(3, 0) == 3);
  CHECK(smaller_radius(2, 3) == 2);
  CHECK(smaller_radius(3, 2) == 2);
  CHECK(smaller_radius(-1, 3) == 3);
}

}  // namespace gv
