// The effect of each kind of lossy codec on values: which values it keeps, and how large the error
// is.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include "consensus/codec/codec.hpp"
#include "tests/consensus/codec_lab.hpp"

namespace gv {

TEST_CASE("ternary values vary by the largest times the sum less the squares") {
  Rng rng(7);
  const Floats x = normals(500, rng);
  double m = 0, magnitudes = 0;
  for (const double value : x) {
    m = std::max(m, std::abs(value));
    magnitudes += std::abs(value);
  }
  double error = 0;
  for (int round = 0; round < 2000; ++round) {
    const Floats result = passed_through({.kind = CodecKind::terngrad}, x, rng);
    for (const float value : result) {
      REQUIRE((value == 0 || std::abs(value) == Approx(m)));
    }
    error += squared_distance(result, x) / 2000;
  }
  // The mean of 2000 errors, each summed over 500 values, varies by half a percent.
  CHECK(error == Approx(m * magnitudes - squares(x)).epsilon(0.02));
}

TEST_CASE("signs lose exactly what their formula says") {
  Rng rng(8);
  double left = 0;
  for (int i = 0; i < 400; ++i) {
    const Floats x = normals(512, rng);
    double magnitudes = 0;
    for (const double value : x) magnitudes += std::abs(value);
    const double delta = magnitudes * magnitudes / (512 * squares(x));
    const double error = squared_distance(passed_through({.kind = CodecKind::sign}, x, rng), x);
    // The scale is rounded to float. That hardly matters, because the error is flat around the best
    // scale.
    REQUIRE(error == Approx((1 - delta) * squares(x)).epsilon(1e-6));
    left += error / squares(x) / 400;
  }
  // Normally distributed values lose 1 - 2/pi of their sum of squares. The loss of one vector
  // varies by 0.015, and the mean of 400 losses by 0.0008. (A thousand values drawn by another
  // program gave 0.3702.)
  CHECK(left == Approx(1 - 2 / std::numbers::pi).margin(0.003));
}

TEST_CASE("every bucket of signs has its own scale and zeros are written as plus") {
  Rng rng(9);
  Floats x(600, 2.0f);
  x[1] = -2.0f;
  for (std::size_t i = 512; i < 600; ++i) x[i] = -1e-20f;
  CHECK(passed_through({.kind = CodecKind::sign}, x, rng) == x);
  CHECK(passed_through({.kind = CodecKind::sign}, {0, -2, 0, 2}, rng) == Floats{1, -1, 1, 1});
}

TEST_CASE("the k largest are kept as they are and of equal ones the first") {
  Rng rng(10);
  const auto kept = [&](const Floats& x, double fraction) {
    return passed_through({.kind = CodecKind::top_k, .fraction = fraction}, x, rng);
  };
  CHECK(kept({1, -3, 2, 0.5f}, 0.5) == Floats{0, -3, 2, 0});
  CHECK(kept({1, -1, 1, -1, 1}, 0.6) == Floats{1, -1, 1, 0, 0});
  CHECK(kept({1, -2, 1, 1, 2}, 0.6) == Floats{1, -2, 0, 0, 2});
  CHECK(kept({0, 0, 5, 0}, 0.5) == Floats{0, 0, 5, 0});
  CHECK(kept({1, 2, 3}, 0.001) == Floats{0, 0, 3});  // At least one value is kept.
  CHECK(kept({1, 2, 3}, 0.34) == Floats{0, 2, 3});   // The number of kept values is rounded up.
  Floats x = normals(200000, rng);
  Floats sorted = x;
  std::ranges::sort(sorted, [](float a, float b) { return std::abs(a) > std::abs(b); });
  const Floats result = kept(x, 0.01);
  for (std::size_t i = 0; i < x.size(); ++i) {
    REQUIRE(result[i] == (std::abs(x[i]) >= std::abs(sorted[1999]) ? x[i] : 0));
  }
}

TEST_CASE("random places are each as likely and known from eight bytes") {
  const Codec codec{.kind = CodecKind::random_k, .fraction = 0.25};
  Rng rng(11);
  const Floats x(12, 1.0f);
  std::vector<int> counts(12);
  int together = 0;
  for (int i = 0; i < 10000; ++i) {
    const Floats result = passed_through(codec, x, rng);
    for (std::size_t j = 0; j < 12; ++j) {
      REQUIRE((result[j] == 0 || result[j] == 4));
      counts[j] += result[j] != 0;
    }
    REQUIRE(std::ranges::count(result, 4.0f) == 3);
    together += result[0] != 0 && result[11] != 0;
  }
  // The margins are five standard deviations of 10000 draws. The probability is 1/4 for one index
  // and 3/12 * 2/11 for a pair.
  for (const int count : counts) CHECK(std::abs(count - 2500) < 5 * 43.4);
  CHECK(std::abs(together - 455) < 5 * 20.9);
  // Equal seeds draw equal indices for any values, so the indices need not be sent.
  Rng one(12), other(12);
  const Bytes a = encoded(codec, x, one);
  const Bytes b = encoded(codec, Floats(12, -2.0f), other);
  CHECK(std::equal(a.begin(), a.begin() + 8, b.begin()));
}

TEST_CASE("levels of any number go to one of the two beside the value") {
  Rng rng(15);
  for (unsigned levels = 1; levels <= 127; ++levels) {
    const Codec codec{.kind = CodecKind::qsgd, .levels = levels};
    const Floats x = normals(1 + rng.below(600), rng);
    const Floats result = passed_through(codec, x, rng);
    REQUIRE(result.size() == x.size());
    for (std::size_t begin = 0; begin < x.size(); begin += 512) {
      double m = 0;
      const std::size_t end = std::min(begin + 512, x.size());
      for (std::size_t i = begin; i < end; ++i) m = std::max<double>(m, std::abs(x[i]));
      for (std::size_t i = begin; i < end; ++i) {
        REQUIRE(std::abs(static_cast<double>(result[i]) - x[i]) <= m / levels * (1 + 1e-5));
        const double level = std::abs(result[i]) * levels / m;
        REQUIRE(level == Approx(std::round(level)).margin(1e-4));
      }
    }
  }
}

}  // namespace gv
