// Random numbers are fair and the same everywhere. Different vectors have different fingerprints.
// Names can be looked up in both directions.
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/canonical.hpp"
#include "base/conduct.hpp"
#include "base/fields.hpp"
#include "base/fingerprint.hpp"
#include "base/ids.hpp"
#include "base/names.hpp"
#include "base/printable.hpp"
#include "base/rng.hpp"

namespace gv {

TEST_CASE("a seed fixes the stream for good", "[unit]") {
  // The generator's first outputs, recorded when it was written. Any change would silently alter
  // every seeded run recorded so far.
  Rng rng(1);
  CHECK(rng.next() == 0xb3f2af6d0fc710c5ULL);
  CHECK(rng.next() == 0x853b559647364ceaULL);
}

namespace {

enum class Colour : std::uint16_t { red = 1, blue = 0x203 };

struct Inner {
  bool yes = true;
  float half = 0.5f;
};

struct Outer {
  std::uint64_t number = 0x0102;
  Colour colour = Colour::blue;
  std::string text = "ab";
  std::vector<Inner> list{{}};
  std::optional<std::int32_t> some = -2;
  std::optional<std::int32_t> none;
  std::array<std::uint8_t, 2> fixed{9, 8};
};

}  // namespace

TEST_CASE("the canonical bytes of a struct are written down for good", "[unit]") {
  // Signatures cover these bytes, so changing a single byte would invalidate all statements.
  const std::vector<int> expected = {2, 0,    0,    0,    'd',  '1',            // The domain.
                                     2, 1,    0,    0,    0,    0,   0, 0,      // number
                                     3, 2,                                      // colour
                                     2, 0,    0,    0,    'a',  'b',            // text
                                     1, 0,    0,    0,    1,    0,   0, 0, 63,  // list
                                     1, 0xfe, 0xff, 0xff, 0xff,                 // some
                                     0,                                         // none
                                     9, 8};                                     // fixed
  std::vector<int> bytes;
  for (const std::byte byte : canonical_bytes("d1", Outer{})) {
    bytes.push_back(std::to_integer<int>(byte));
  }
  CHECK(bytes == expected);
}

TEST_CASE("a fork depends on seed and purpose and not on what was drawn", "[unit]") {
  Rng fresh(7);
  Rng used(7);
  used.next();
  CHECK(fresh.fork("a").next() == used.fork("a").next());
  CHECK(fresh.fork("a").next() != fresh.fork("b").next());
}

TEST_CASE("bounded draws are uniform", "[unit]") {
  Rng rng(3);
  std::array<int, 7> counts{};
  constexpr int draws = 70000;
  for (int i = 0; i < draws; ++i) ++counts[rng.below(7)];
  double chi2 = 0;
  for (const int count : counts) chi2 += std::pow(count - draws / 7.0, 2) / (draws / 7.0);
  CHECK(chi2 < 22.46);  // The 0.1 % critical value of chi-squared with 6 degrees of freedom.
}

TEST_CASE("normal and gamma draws have their mean and variance", "[unit]") {
  Rng rng(5);
  constexpr int draws = 100000;
  double sum = 0, squares = 0, gamma_sum = 0, small_gamma_sum = 0;
  for (int i = 0; i < draws; ++i) {
    const double x = rng.normal();
    sum += x;
    squares += x * x;
    gamma_sum += rng.gamma(2.5);
    small_gamma_sum += rng.gamma(0.1);
  }
  // Each bound is four standard errors of the estimate.
  CHECK(std::abs(sum / draws) < 4 / std::sqrt(draws));
  CHECK(std::abs(squares / draws - 1) < 4 * std::sqrt(2.0 / draws));
  CHECK(std::abs(gamma_sum / draws - 2.5) < 4 * std::sqrt(2.5 / draws));
  CHECK(std::abs(small_gamma_sum / draws - 0.1) < 4 * std::sqrt(0.1 / draws));
}

namespace {

/// The half-integers from -3.5 upwards.
std::vector<float> ramp(std::size_t size) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<float>(i) - 3.5f;
  return values;
}

void flip(float& value, unsigned bit) {
  value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ (1u << bit));
}

}  // namespace

TEST_CASE("a fingerprint is the one of xxHash's own library", "[unit]") {
  // These hashes of the bytes of ramp(size) were computed by libxxhash 0.8.1.
  const std::vector<std::pair<std::size_t, std::uint64_t>> known = {
      {0, 0xef46db3751d8e999},  {1, 0x345eead78f8e0220},  {2, 0x1d973d7146e20d86},
      {3, 0x21c0658360e27ae1},  {7, 0x56098cd3207df63e},  {8, 0x012dc3057c729338},
      {11, 0xdcbd38d4f0050de2}, {16, 0xef20a64752d5daf8}, {70, 0x1b48d047d40db892}};
  for (const auto& [size, hash] : known) {
    INFO("size " << size);
    CHECK(fingerprint(ramp(size)) == hash);
  }
}

TEST_CASE("every bit of a vector of any size changes about half of its fingerprint", "[unit]") {
  std::set<std::uint64_t> seen;
  std::size_t count = 0;
  double sum = 0;
  for (std::size_t size = 0; size <= 70; ++size) {
    std::vector<float> values = ramp(size);
    const std::uint64_t whole = fingerprint(values);
    seen.insert(whole);
    ++count;
    for (std::size_t i = 0; i < size; ++i) {
      for (unsigned bit = 0; bit < 32; ++bit) {
        flip(values[i], bit);
        const std::uint64_t changed = fingerprint(values);
        flip(values[i], bit);
        // With 64 fair coins, one draw in 10^10 is outside [8, 56]. This test makes 8 * 10^4 draws.
        const int bits = std::popcount(changed ^ whole);
        CHECK((bits >= 8 && bits <= 56));
        seen.insert(changed);
        ++count;
        sum += bits;
      }
    }
  }
  CHECK(seen.size() == count);
  // The margin is five standard errors of the mean of fair coins.
  const double flips = static_cast<double>(count - 71);
  CHECK(std::abs(sum / flips - 32) < 5 * 4 / std::sqrt(flips));
}

TEST_CASE("two changes do not cancel in a fingerprint", "[unit]") {
  // Flips signs and lowest bits. In a plain sum or product of words, two such changes would cancel.
  std::set<std::uint64_t> seen;
  std::size_t count = 0;
  std::vector<float> values = ramp(40);
  for (const unsigned bit : {0u, 23u, 31u}) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        flip(values[i], bit);
        flip(values[j], bit);
        seen.insert(fingerprint(values));
        flip(values[i], bit);
        flip(values[j], bit);
        ++count;
      }
    }
  }
  CHECK(seen.size() == count);
}

TEST_CASE("a fingerprint sees signs of zero payloads of NaN and order", "[unit]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  float other_nan = nan;
  flip(other_nan, 0);
  const std::vector<std::vector<float>> all = {
      {0, 0}, {0, -0.0f}, {-0.0f, 0}, {0}, {0, 0, 0}, {1, 2}, {2, 1}, {nan, 0}, {other_nan, 0}};
  std::set<std::uint64_t> seen;
  for (const auto& values : all) seen.insert(fingerprint(values));
  CHECK(seen.size() == all.size());
}

struct NoFields {};
struct OneField {
  std::array<int, 3> numbers{};
};
struct TenFields {
  int a = 1;
  bool b = false;
  std::string c;
  std::optional<OneField> d;
  std::array<std::uint8_t, 4> e{};
  OneField f;
  std::vector<int> g;
  std::map<int, int> h;
  PeerId i{};
  double j = 10;
};

TEST_CASE("the fields of a struct are all there in the order of their declaration", "[unit]") {
  TenFields ten;
  const auto fields = fields_of(ten);
  STATIC_REQUIRE(std::tuple_size_v<decltype(fields)> == 10);
  CHECK(&std::get<0>(fields) == &ten.a);
  CHECK(&std::get<4>(fields) == &ten.e);
  CHECK(&std::get<5>(fields) == &ten.f);
  CHECK(&std::get<9>(fields) == &ten.j);
  const OneField one{{1, 2, 3}};
  CHECK(&std::get<0>(fields_of(one)) == &one.numbers);
  NoFields none;
  STATIC_REQUIRE(std::tuple_size_v<decltype(fields_of(none))> == 0);
}

TEST_CASE("only structs without secrets are plain", "[unit]") {
  STATIC_REQUIRE(PlainStruct<TenFields>);
  STATIC_REQUIRE_FALSE(PlainStruct<std::array<int, 3>>);
  STATIC_REQUIRE_FALSE(PlainStruct<std::optional<int>>);
  STATIC_REQUIRE_FALSE(PlainStruct<std::string>);
  STATIC_REQUIRE_FALSE(PlainStruct<Rng>);
  STATIC_REQUIRE_FALSE(PlainStruct<PeerId>);
}

TEST_CASE("a type's name is what its declaration says", "[unit]") {
  CHECK(type_name<TenFields>() == "TenFields");
  CHECK(type_name<PeerId>() == "PeerId");
}

TEST_CASE("names of an enumeration are read both ways", "[unit]") {
  enum class Meal { breakfast, lunch, dinner };
  constexpr auto names = names_of<Meal>({"breakfast", "lunch", "dinner"});
  STATIC_REQUIRE(names[Meal::lunch] == "lunch");
  for (const Meal meal : names.kinds()) CHECK(names.find(names[meal]) == meal);
  CHECK(names.kinds().size() == 3);
  CHECK_FALSE(names.find("supper").has_value());
  CHECK(names[static_cast<Meal>(3)] == "unknown");
}

TEST_CASE("the third offence within a while begins a quarantine and the record is clean after it",
          "[unit]") {
  using namespace std::chrono_literals;
  Conduct conduct({.offences_max = 3, .memory = 60s, .quarantine = 10s});
  const PeerId peer{1};
  const auto at = [](Duration time) { return Time{} + 1h + time; };
  CHECK_FALSE(conduct.offend(at(0s), peer));
  CHECK_FALSE(conduct.offend(at(59s), peer));
  // The first two offences no longer count.
  CHECK_FALSE(conduct.offend(at(61s), peer));
  CHECK_FALSE(conduct.offend(at(62s), peer));
  CHECK_FALSE(conduct.is_quarantined(at(62s), peer));
  CHECK(conduct.offend(at(63s), peer));
  CHECK(conduct.is_quarantined(at(63s), peer));
  CHECK_FALSE(conduct.is_quarantined(at(63s), PeerId{2}));
  CHECK_FALSE(conduct.offend(at(64s), peer));
  CHECK(conduct.tick(at(72s)) == 1);
  CHECK_FALSE(conduct.is_quarantined(at(73s), peer));
  CHECK_FALSE(conduct.offend(at(73s), peer));
  CHECK_FALSE(conduct.offend(at(74s), peer));
  CHECK(conduct.tick(at(133s)) == 0);
}

TEST_CASE("printable text has no control characters and is cut where that is asked for", "[unit]") {
  CHECK(printable("J\xc3\xbcrgen") == "J\xc3\xbcrgen");
  CHECK(printable(std::string("a\033\n\x7f\0b", 6)) == "a\\x1b\\x0a\\x7f\\x00b");
  CHECK(printable("\xc2\x9b"
                  "2J") == "\xc2\\x9b2J");
  CHECK(printable("abcdef", 3) == "abc...");
  CHECK(printable("abc", 3) == "abc");
}

}  // namespace gv
