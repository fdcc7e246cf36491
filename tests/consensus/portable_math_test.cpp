// Functions that give the same bits on all machines are close to those of the standard library.
#include "base/portable_math.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "base/fingerprint.hpp"
#include "base/rng.hpp"

namespace gv {

TEST_CASE("a power by squaring is the product of its factors", "[unit]") {
  CHECK(integer_power(0.3, 0) == 1);
  CHECK(integer_power(0, 0) == 1);
  CHECK(integer_power(0, 5) == 0);
  CHECK(integer_power(-2, 11) == -2048);
  for (const double base : {0.5, 0.9, 0.999, 0.999999}) {
    for (const std::uint64_t exponent : {1, 2, 3, 7, 100, 4096, 99999}) {
      // At most `exponent` multiplications round once each.
      const double rounding = static_cast<double>(exponent) * 0x1p-52;
      const double expected = std::pow(base, static_cast<double>(exponent));
      CHECK(std::abs(integer_power(base, exponent) - expected) <= rounding * expected);
    }
  }
}

TEST_CASE("the cosine falls from one over zero to minus one", "[unit]") {
  CHECK(cosine_of_half_turns(0) == 1);
  CHECK(cosine_of_half_turns(1) == -1);
  CHECK(std::abs(cosine_of_half_turns(0.5)) < 1e-15);
  for (int i = 0; i <= 1000; ++i) {
    const double x = i / 1000.0;
    CHECK(std::abs(cosine_of_half_turns(x) - std::cos(std::numbers::pi * x)) < 1e-15);
  }
}

TEST_CASE("the logarithm is that of the standard library within four units of the last place",
          "[unit]") {
  CHECK(natural_logarithm(1) == 0);
  Rng rng(1);
  for (int i = 0; i < 10000; ++i) {
    const double x = std::ldexp(1 - rng.uniform(), static_cast<int>(rng.below(2000)) - 1000);
    for (const double y : {x, 1 - rng.uniform(), 1 + std::ldexp(rng.uniform(), -20)}) {
      const double expected = std::log(y);
      CHECK(std::abs(natural_logarithm(y) - expected) <= std::abs(expected) * 0x1p-50);
    }
  }
  CHECK(natural_logarithm(std::numeric_limits<double>::denorm_min()) ==
        Approx(-744.44).epsilon(1e-5));
}

// The fingerprints were recorded on x86. With the C library's functions, the first fingerprint
// would depend on whether the processor has fused multiply-add.
TEST_CASE("powers and cosines and logarithms have the same bits on every machine", "[unit]") {
  Rng rng(2);
  std::vector<double> values;
  for (int i = 0; i < 100000; ++i) {
    const double x = 1 - rng.uniform();
    values.push_back(natural_logarithm(x));
    values.push_back(cosine_of_half_turns(x));
    values.push_back(integer_power(x, 1 + rng.below(100000)));
  }
  CHECK(fingerprint(values) == 0xa431fcde1340db5eULL);
  std::vector<double> draws;
  for (int i = 0; i < 100000; ++i) draws.push_back(rng.normal());
  CHECK(fingerprint(draws) == 0x1443cf545fcd7e82ULL);
}

}  // namespace gv
