// Every lossy codec keeps what its traits say of it: laws generated from the traits.
#include "consensus/codec/lossy_codec.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <vector>

#include "base/rng.hpp"
#include "consensus/codec/sparse_vector.hpp"
#include "consensus/codec/value_codec.hpp"

namespace gv {
namespace {

using Floats = std::vector<float>;
using Bytes = std::vector<std::byte>;

/// Every kind, with parameters at the ends and between.
const std::vector<LossyCodec> codecs = {
    {.kind = LossyKind::identity},
    {.kind = LossyKind::fp16},
    {.kind = LossyKind::bf16},
    {.kind = LossyKind::qsgd, .levels = 127},
    {.kind = LossyKind::qsgd, .levels = 7},
    {.kind = LossyKind::qsgd, .levels = 5},
    {.kind = LossyKind::qsgd, .levels = 3},
    {.kind = LossyKind::qsgd, .levels = 1},
    {.kind = LossyKind::terngrad},
    {.kind = LossyKind::sign},
    {.kind = LossyKind::top_k, .fraction = 0.01},
    {.kind = LossyKind::top_k, .fraction = 0.3},
    {.kind = LossyKind::top_k, .fraction = 0.9},
    {.kind = LossyKind::top_k, .fraction = 1},
    {.kind = LossyKind::random_k, .fraction = 0.01},
    {.kind = LossyKind::random_k, .fraction = 0.3},
    {.kind = LossyKind::random_k, .fraction = 1},
};

std::string name_of(const LossyCodec& codec) {
  return std::string(to_string(codec.kind)) + ' ' + std::to_string(codec.fraction) + ' ' +
         std::to_string(codec.levels);
}

/// The codecs of which something is known, for vectors of that size.
std::vector<LossyCodec> those(const std::function<bool(const LossyTraits&)>& wanted,
                              std::size_t elements) {
  std::vector<LossyCodec> found;
  for (const LossyCodec& codec : codecs) {
    if (wanted(traits_of(codec, elements))) found.push_back(codec);
  }
  return found;
}

bool is_only_unbiased(const LossyTraits& traits) { return !traits.lossless && traits.unbiased; }
bool is_only_contractive(const LossyTraits& traits) { return !traits.lossless && traits.delta > 0; }

Bytes encoded(const LossyCodec& codec, const Floats& values, Rng& rng) {
  Bytes bytes(encoded_size(codec, values.size()));
  encode(codec, values, rng, bytes);
  return bytes;
}

/// There and back. Empty if refused.
Floats passed_through(const LossyCodec& codec, const Floats& values, Rng& rng) {
  Floats result(values.size(), std::nanf(""));  // Every value has to be written.
  if (!decode(codec, encoded(codec, values, rng), result)) return {};
  return result;
}

Floats normals(std::size_t n, Rng& rng) {
  Floats values(n);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

double squares(const Floats& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

double squared_distance(const Floats& a, const Floats& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return sum;
}

/// The variance of each value of C(x) for an unbiased codec, by its formula.
std::vector<double> variances_of(const LossyCodec& codec, const Floats& x) {
  std::vector<double> variances;
  if (codec.kind == LossyKind::random_k) {
    const double k = std::max(1.0, std::ceil(codec.fraction * static_cast<double>(x.size())));
    for (const double value : x) variances.push_back((x.size() / k - 1) * value * value);
    return variances;
  }
  const int levels = codec.kind == LossyKind::terngrad ? 1 : static_cast<int>(codec.levels);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t begin = i / 512 * 512;
    double m = 0;
    for (std::size_t j = begin; j < std::min(begin + 512, x.size()); ++j) {
      m = std::max<double>(m, std::abs(x[j]));
    }
    const double level = m > 0 ? std::abs(x[i]) * levels / m : 0;
    const double fraction = level - std::floor(level);
    variances.push_back(std::pow(m / levels, 2) * fraction * (1 - fraction));
  }
  return variances;
}

double sum(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += value;
  return total;
}

/// Vectors of all sorts: normal, with zeros, with ties, with one large value, of any magnitude.
Floats any_vector(std::size_t n, Rng& rng) {
  Floats values = normals(n, rng);
  const std::uint64_t sort = rng.below(6);
  if (sort == 0) return Floats(n);
  if (sort == 1) {
    for (float& value : values) value = rng.chance(0.5) ? 1.0f : -1.0f;
  }
  if (sort == 2) {
    for (float& value : values) value = rng.chance(0.9) ? 0 : value;
  }
  if (sort == 3) values[rng.below(n)] *= 1000;
  if (sort == 4) {
    for (float& value : values) value *= std::ldexp(1.0f, static_cast<int>(rng.below(8)));
  }
  return values;
}

/// The vector for which levels of s lose the largest share there is: see LossyTraits.
Floats worst_for_levels(double s, std::size_t n) {
  Floats values(n, static_cast<float>(s / (s + std::sqrt(s * s + static_cast<double>(n - 1)))));
  values.back() = static_cast<float>(s);
  return values;
}

}  // namespace

// ---- Traits ----

TEST_CASE("a lossy codec is unbiased or contractive and never both") {
  for (const LossyCodec& codec : codecs) {
    for (const std::size_t d : {2u, 100u, 600u, 100000u}) {
      const LossyTraits traits = traits_of(codec, d);
      INFO(name_of(codec) << " of " << d);
      CHECK((traits.lossless || traits.unbiased != (traits.delta > 0)));
      CHECK(traits.delta >= 0);
      CHECK(traits.delta <= 1);
      CHECK(traits.omega >= 0);
      if (traits.lossless) CHECK((traits.delta == 1 && traits.omega == 0 && traits.unbiased));
    }
  }
}

TEST_CASE("kinds are what the table says of them") {
  const auto traits = [](LossyKind kind) { return traits_of({.kind = kind}, 10000); };
  CHECK(traits(LossyKind::identity).lossless);
  for (const LossyKind kind : {LossyKind::qsgd, LossyKind::terngrad, LossyKind::random_k}) {
    CHECK(is_only_unbiased(traits(kind)));
  }
  for (const LossyKind kind :
       {LossyKind::fp16, LossyKind::bf16, LossyKind::sign, LossyKind::top_k}) {
    CHECK(is_only_contractive(traits(kind)));
  }
  CHECK(traits(LossyKind::top_k).delta == 0.01);
  CHECK(traits(LossyKind::random_k).omega == 99);
  CHECK(traits(LossyKind::sign).delta == 1.0 / 512);
  // What ring/value_codec says of 127 and 7 levels.
  CHECK(traits_of({.kind = LossyKind::qsgd, .levels = 127}, 512).omega ==
        Approx(0.0079).epsilon(0.01));
  CHECK(traits_of({.kind = LossyKind::qsgd, .levels = 7}, 512).omega == Approx(1.19).epsilon(0.01));
}

TEST_CASE("what is lossless comes back as it was") {
  Rng rng(1);
  for (const std::size_t d : {1u, 2u, 100u, 600u, 70000u}) {
    for (const LossyCodec& codec : those(&LossyTraits::lossless, d)) {
      const Floats values = any_vector(d, rng);
      INFO(name_of(codec) << " of " << d);
      CHECK(passed_through(codec, values, rng) == values);
    }
  }
}

TEST_CASE("unbiased codecs are right on average and vary as their formula says") {
  const std::size_t d = GENERATE(1, 2, 100, 600);
  constexpr int rounds = 4000;
  Rng rng(d);
  for (const LossyCodec& codec : those(is_only_unbiased, d)) {
    const Floats x = normals(d, rng);
    const std::vector<double> variances = variances_of(codec, x);
    std::vector<double> sums(d);
    double error = 0;
    for (int round = 0; round < rounds; ++round) {
      const Floats result = passed_through(codec, x, rng);
      REQUIRE(result.size() == d);
      for (std::size_t i = 0; i < d; ++i) sums[i] += result[i];
      error += squared_distance(result, x) / rounds;
    }
    INFO(name_of(codec) << " of " << d);
    for (std::size_t i = 0; i < d; ++i) {
      // Five standard errors of the mean, and what is lost as results are rounded to float.
      REQUIRE(std::abs(sums[i] / rounds - x[i]) <= 5 * std::sqrt(variances[i] / rounds) + 1e-6);
    }
    // The mean of 4000 squared errors is within a tenth for one value, less for more.
    CHECK(error == Approx(sum(variances)).epsilon(0.1).margin(1e-6));
  }
}

TEST_CASE("unbiased codecs never vary more than omega and there is a vector that does as much") {
  Rng rng(2);
  for (const std::size_t d : {2u, 3u, 100u, 512u, 600u}) {
    for (const LossyCodec& codec : those(is_only_unbiased, d)) {
      const double omega = traits_of(codec, d).omega;
      INFO(name_of(codec) << " of " << d << ": " << omega);
      for (int i = 0; i < 200; ++i) {
        const Floats x = any_vector(d, rng);
        REQUIRE(sum(variances_of(codec, x)) <= omega * squares(x) * (1 + 1e-9));
      }
      const double s = codec.kind == LossyKind::qsgd ? codec.levels : 1;
      Floats worst = worst_for_levels(s, std::min<std::size_t>(d, 512));
      worst.resize(d);
      // The vector is rounded to float.
      CHECK(sum(variances_of(codec, worst)) == Approx(omega * squares(worst)).epsilon(1e-5));
    }
  }
}

TEST_CASE("an unbiased codec divided by one more than omega is contractive in the mean") {
  Rng rng(3);
  const std::size_t d = 600;
  for (const LossyCodec& codec : those(is_only_unbiased, d)) {
    const double omega = traits_of(codec, d).omega;
    const Floats x = normals(d, rng);
    double left = 0;
    for (int round = 0; round < 500; ++round) {
      Floats result = passed_through(codec, x, rng);
      for (float& value : result) value = static_cast<float>(value / (1 + omega));
      left += squared_distance(result, x) / 500;
    }
    INFO(name_of(codec));
    // 1 - 1/(1 + omega); the mean of 500 draws is within a hundredth, with few kept values too.
    CHECK(left <= omega / (1 + omega) * squares(x) * 1.01);
  }
}

TEST_CASE("contractive codecs lose no more than their share of anything") {
  const std::size_t d = GENERATE(1, 2, 7, 100, 513, 1300);
  Rng rng(d);
  for (const LossyCodec& codec : those(is_only_contractive, d)) {
    const double kept = 1 - traits_of(codec, d).delta;
    // fp16 and bf16: half of their smallest number for each value; others: half of the smallest.
    const double least = codec.kind == LossyKind::fp16 ? 0x1p-25 : 0x1p-134;
    INFO(name_of(codec) << " of " << d);
    for (int i = 0; i<10000; i += d> 100 ? 10 : 1) {
      const Floats x = any_vector(d, rng);
      const Floats result = passed_through(codec, x, rng);
      REQUIRE(result.size() == d);
      // A share of 1e-6 for a scale that is rounded to float.
      const double most = kept * squares(x) * (1 + 1e-6) + static_cast<double>(d) * least * least;
      REQUIRE(squared_distance(result, x) <= most);
    }
  }
}

TEST_CASE("the smallest and largest numbers pass through every codec") {
  Rng rng(4);
  const float smallest = std::numeric_limits<float>::denorm_min();
  for (const LossyCodec& codec : codecs) {
    for (const std::size_t d : {1u, 3u, 600u}) {
      const LossyTraits traits = traits_of(codec, d);
      INFO(name_of(codec) << " of " << d);
      for (const float value : {smallest, -smallest, 0x1p-130f, 60000.0f, -60000.0f}) {
        Floats x(d);
        x[d / 2] = value;
        const Floats result = passed_through(codec, x, rng);
        REQUIRE(result.size() == d);
        if (traits.lossless || codec.kind == LossyKind::top_k) CHECK(result == x);
        // One value alone is its bucket's largest.
        if (codec.kind == LossyKind::qsgd || codec.kind == LossyKind::terngrad) CHECK(result == x);
      }
      CHECK(passed_through(codec, Floats(d), rng) == Floats(d));
    }
  }
}

TEST_CASE("linear codes of generators in one state sum to the code of the sum") {
  const std::size_t d = 600;
  const Rng shared(5);
  Rng rng(6);
  for (const LossyCodec& codec : those(&LossyTraits::linear, d)) {
    const Floats x = normals(d, rng);
    const Floats y = normals(d, rng);
    Floats both(d);
    for (std::size_t i = 0; i < d; ++i) both[i] = x[i] + y[i];
    const auto code = [&](const Floats& values) {
      Rng same = shared;
      return passed_through(codec, values, same);
    };
    const Floats code_x = code(x), code_y = code(y), code_both = code(both);
    INFO(name_of(codec));
    for (std::size_t i = 0; i < d; ++i) {
      // Each of the three is rounded once, at values below 1000.
      REQUIRE(code_both[i] == Approx(code_x[i] + code_y[i]).margin(3e-4));
      REQUIRE((code_both[i] == 0) == (code_x[i] == 0));
    }
  }
  CHECK(those(&LossyTraits::linear, d).size() == 5);  // identity, random_k, top_k of everything.
}

// ---- The kinds one by one ----

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
    const Floats result = passed_through({.kind = LossyKind::terngrad}, x, rng);
    for (const float value : result) {
      REQUIRE((value == 0 || std::abs(value) == Approx(m)));
    }
    error += squared_distance(result, x) / 2000;
  }
  // The mean of 2000 sums of 500 squares varies by half a hundredth.
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
    const double error = squared_distance(passed_through({.kind = LossyKind::sign}, x, rng), x);
    // The scale is rounded to float, and the best scale's error is flat around it.
    REQUIRE(error == Approx((1 - delta) * squares(x)).epsilon(1e-6));
    left += error / squares(x) / 400;
  }
  // 1 - 2/pi of normal values; one vector varies by 0.015, the mean of 400 by 0.0008. (A thousand
  // values drawn by other means gave 0.3702.)
  CHECK(left == Approx(1 - 2 / std::numbers::pi).margin(0.003));
}

TEST_CASE("every bucket of signs has its own scale and zeros are written as plus") {
  Rng rng(9);
  Floats x(600, 2.0f);
  x[1] = -2.0f;
  for (std::size_t i = 512; i < 600; ++i) x[i] = -1e-20f;
  CHECK(passed_through({.kind = LossyKind::sign}, x, rng) == x);
  CHECK(passed_through({.kind = LossyKind::sign}, {0, -2, 0, 2}, rng) == Floats{1, -1, 1, 1});
}

TEST_CASE("the k largest are kept as they are and of equal ones the first") {
  Rng rng(10);
  const auto kept = [&](const Floats& x, double fraction) {
    return passed_through({.kind = LossyKind::top_k, .fraction = fraction}, x, rng);
  };
  CHECK(kept({1, -3, 2, 0.5f}, 0.5) == Floats{0, -3, 2, 0});
  CHECK(kept({1, -1, 1, -1, 1}, 0.6) == Floats{1, -1, 1, 0, 0});
  CHECK(kept({1, -2, 1, 1, 2}, 0.6) == Floats{1, -2, 0, 0, 2});
  CHECK(kept({0, 0, 5, 0}, 0.5) == Floats{0, 0, 5, 0});
  CHECK(kept({1, 2, 3}, 0.001) == Floats{0, 0, 3});  // At least one.
  CHECK(kept({1, 2, 3}, 0.34) == Floats{0, 2, 3});   // A share is rounded up.
  Floats x = normals(200000, rng);
  Floats sorted = x;
  std::ranges::sort(sorted, [](float a, float b) { return std::abs(a) > std::abs(b); });
  const Floats result = kept(x, 0.01);
  for (std::size_t i = 0; i < x.size(); ++i) {
    REQUIRE(result[i] == (std::abs(x[i]) >= std::abs(sorted[1999]) ? x[i] : 0));
  }
}

TEST_CASE("random places are each as likely and known from eight bytes") {
  const LossyCodec codec{.kind = LossyKind::random_k, .fraction = 0.25};
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
  // Five standard deviations of 10000 draws with 1/4, and with 3/12 * 2/11 for two places.
  for (const int count : counts) CHECK(std::abs(count - 2500) < 5 * 43.4);
  CHECK(std::abs(together - 455) < 5 * 20.9);
  // Equal seeds draw equal places, whatever the values: nobody has to be told them.
  Rng one(12), other(12);
  const Bytes a = encoded(codec, x, one);
  const Bytes b = encoded(codec, Floats(12, -2.0f), other);
  CHECK(std::equal(a.begin(), a.begin() + 8, b.begin()));
}

TEST_CASE("codecs of the ring are the same codecs here") {
  Rng rng(13);
  const Floats x = normals(1300, rng);
  const auto is_same = [&](const LossyCodec& lossy, ValueCodec plain) {
    Rng one(14), other(14);
    Bytes bytes(encoded_size(plain, x.size()));
    encode(plain, x, other, bytes);
    return encoded(lossy, x, one) == bytes;
  };
  CHECK(is_same({.kind = LossyKind::identity}, ValueCodec::identity));
  CHECK(is_same({.kind = LossyKind::fp16}, ValueCodec::fp16));
  CHECK(is_same({.kind = LossyKind::bf16}, ValueCodec::bf16));
  CHECK(is_same({.kind = LossyKind::qsgd, .levels = 127}, ValueCodec::qsgd8));
  CHECK(is_same({.kind = LossyKind::qsgd, .levels = 7}, ValueCodec::qsgd4));
}

TEST_CASE("levels of any number go to one of the two beside the value") {
  Rng rng(15);
  for (unsigned levels = 1; levels <= 127; ++levels) {
    const LossyCodec codec{.kind = LossyKind::qsgd, .levels = levels};
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

// ---- Error feedback ----

TEST_CASE("what was sent and what is remembered is what there was with every codec") {
  constexpr int rounds = 300;
  constexpr std::size_t d = 600;
  Rng rng(16);
  for (const LossyCodec& codec : codecs) {
    const LossyTraits traits = traits_of(codec, d);
    // Unbiased ones are sent shrunk: a memory of what varies more than what is sent would grow.
    const double shrink = 1 / (1 + (traits.delta > 0 ? 0 : traits.omega));
    const double delta = traits.delta > 0 ? traits.delta : shrink;
    Floats memory(d);
    std::vector<double> given(d), sent(d);
    double largest = 0, gradient_squares = 0;
    for (int round = 0; round < rounds; ++round) {
      const Floats gradient = normals(d, rng);
      gradient_squares = std::max(gradient_squares, squares(gradient));
      for (std::size_t i = 0; i < d; ++i) {
        given[i] += gradient[i];
        memory[i] += gradient[i];
        largest = std::max<double>(largest, std::abs(memory[i]));
      }
      const Floats code = passed_through(codec, memory, rng);
      REQUIRE(code.size() == d);
      for (std::size_t i = 0; i < d; ++i) {
        const auto part = static_cast<float>(code[i] * shrink);
        sent[i] += part;
        memory[i] -= part;
        largest = std::max<double>(largest, std::abs(part));
      }
    }
    INFO(name_of(codec));
    // Each round rounds twice, to half of 2^-23 of what is there.
    for (std::size_t i = 0; i < d; ++i) {
      REQUIRE(std::abs(sent[i] + memory[i] - given[i]) <= rounds * 0x1p-23 * largest);
    }
    // Karimireddy 2019, lemma 3.
    CHECK(squares(memory) <= 4 * (1 - delta) / (delta * delta) * gradient_squares + 1e-6);
  }
}

// ---- Bytes ----

TEST_CASE("sizes of lossy codes are exact") {
  const auto size = [](LossyKind kind, std::size_t d, double fraction = 0.01,
                       unsigned levels = 127) {
    return encoded_size({.kind = kind, .fraction = fraction, .levels = levels}, d);
  };
  for (const std::size_t d : {1u, 2u, 511u, 512u, 513u, 1025u}) {
    const std::size_t scales = 4 * ((d + 511) / 512);
    CHECK(size(LossyKind::identity, d) == 4 * d);
    CHECK(size(LossyKind::fp16, d) == 2 * d);
    CHECK(size(LossyKind::bf16, d) == 2 * d);
    CHECK(size(LossyKind::qsgd, d) == scales + d);
    CHECK(size(LossyKind::qsgd, d, 1, 64) == scales + d);
    CHECK(size(LossyKind::qsgd, d, 1, 15) == scales + (5 * d + 7) / 8);
    CHECK(size(LossyKind::qsgd, d, 1, 7) == scales + (d + 1) / 2);
    CHECK(size(LossyKind::qsgd, d, 1, 3) == scales + (3 * d + 7) / 8);
    CHECK(size(LossyKind::terngrad, d) == scales + (d + 3) / 4);
    CHECK(size(LossyKind::sign, d) == scales + (d + 7) / 8);
    CHECK(size(LossyKind::random_k, d, 1) == 8 + 4 * d);
    CHECK(size(LossyKind::top_k, d, 1) == 12 + 4 * d);  // No places: they would cost more.
  }
  CHECK(size(LossyKind::random_k, 1000) == 8 + 10 * 4);
  CHECK(size(LossyKind::random_k, 1001) == 8 + 11 * 4);
  CHECK(size(LossyKind::top_k, 1000) == 12 + 4 + 10 * 6);
  CHECK(size(LossyKind::top_k, 200000) == 12 + 4 * 4 + 2000 * 6);
}

TEST_CASE("all vectors of one size are as long in bytes and every byte is written") {
  Rng rng(17);
  for (const LossyCodec& codec : codecs) {
    CHECK(encoded_size(codec, 0) == 0);
    CHECK(passed_through(codec, {}, rng).empty());
    for (const std::size_t d : {1u, 9u, 513u, 1300u}) {
      const Floats x = any_vector(d, rng);
      Bytes one(encoded_size(codec, d), std::byte{0x00});
      Bytes other(encoded_size(codec, d), std::byte{0xff});
      Rng same(18), as_same(18);
      encode(codec, x, same, one);
      encode(codec, x, as_same, other);
      INFO(name_of(codec) << " of " << d);
      CHECK(one == other);
      CHECK(same.next() == as_same.next());
    }
  }
}

TEST_CASE("only codecs that draw move the generator") {
  for (const LossyCodec& codec : codecs) {
    Rng rng(19);
    encoded(codec, Floats(600, 1.0f), rng);
    const bool draws = codec.kind == LossyKind::qsgd || codec.kind == LossyKind::terngrad ||
                       codec.kind == LossyKind::random_k;
    CHECK((rng.next() == Rng(19).next()) == !draws);
  }
}

TEST_CASE("what is not finite is refused by every lossy codec wherever it stands") {
  Rng rng(20);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const LossyCodec& codec : codecs) {
    INFO(name_of(codec));
    for (const float bad : {infinity, -infinity, std::nanf(""), -std::nanf("")}) {
      CHECK(passed_through(codec, {bad}, rng).empty());
      for (const std::size_t place : {0u, 300u, 511u, 512u, 599u}) {
        Floats x(600, 1.0f);
        CHECK(passed_through(codec, x, rng).size() == 600);
        x[place] = bad;
        CHECK(passed_through(codec, x, rng).empty());
      }
    }
  }
}

TEST_CASE("what becomes infinite as it is written is refused") {
  Rng rng(21);
  const Floats x(10, std::numeric_limits<float>::max());
  CHECK(passed_through({.kind = LossyKind::random_k, .fraction = 0.5}, x, rng).empty());
  CHECK(passed_through({.kind = LossyKind::fp16}, x, rng).empty());
  CHECK(passed_through({.kind = LossyKind::bf16}, x, rng).empty());
  for (const LossyKind kind : {LossyKind::qsgd, LossyKind::terngrad, LossyKind::sign}) {
    CHECK(passed_through({.kind = kind}, x, rng) == x);
  }
}

TEST_CASE("lossy codes of another size are refused") {
  Rng rng(22);
  Floats out(600);
  for (const LossyCodec& codec : codecs) {
    Bytes bytes = encoded(codec, normals(600, rng), rng);
    INFO(name_of(codec));
    CHECK(decode(codec, bytes, out));
    CHECK_FALSE(decode(codec, std::span(bytes).first(bytes.size() - 1), out));
    CHECK_FALSE(decode(codec, {}, out));
    bytes.push_back({});
    CHECK_FALSE(decode(codec, bytes, out));
  }
}

TEST_CASE("scales below zero and levels above the last are refused") {
  Rng rng(23);
  Floats out(3);
  for (const LossyKind kind : {LossyKind::qsgd, LossyKind::terngrad, LossyKind::sign}) {
    Bytes bytes = encoded({.kind = kind}, {1, 2, 3}, rng);
    CHECK(decode({.kind = kind}, bytes, out));
    bytes[3] |= std::byte{0x80};
    CHECK_FALSE(decode({.kind = kind}, bytes, out));
  }
  const LossyCodec five{.kind = LossyKind::qsgd, .levels = 5};
  Bytes bytes = encoded(five, {0, 5, 5}, rng);
  bytes[4] = std::byte{0x55};  // Four bits each: 5, 5.
  CHECK(decode(five, bytes, out));
  bytes[4] = std::byte{0x65};
  CHECK_FALSE(decode(five, bytes, out));
}

TEST_CASE("a stream with another number of values is no top k") {
  Rng rng(24);
  const LossyCodec codec{.kind = LossyKind::top_k, .fraction = 0.1};
  Bytes bytes = encoded(codec, normals(100, rng), rng);
  Floats out(100);
  CHECK(decode(codec, bytes, out));
  // The same bytes as another form and as another codec; places in another order.
  Bytes dense = bytes;
  dense[0] = std::byte{1};
  CHECK_FALSE(decode(codec, dense, out));
  Bytes halves = bytes;
  halves[1] = std::byte{1};
  CHECK_FALSE(decode(codec, halves, out));
  Bytes unsorted = bytes;
  std::swap(unsorted[16], unsorted[18]);
  CHECK_FALSE(decode(codec, unsorted, out));
  Bytes other = encoded({.kind = LossyKind::top_k, .fraction = 0.2}, normals(100, rng), rng);
  CHECK_FALSE(decode(codec, other, out));
  // Four values in full take as many bytes as two with their places.
  const LossyCodec all{.kind = LossyKind::top_k, .fraction = 1};
  const Bytes two = encode(SparseVector::sparse(4, std::vector<std::size_t>{1, 3}, {1, 2}),
                           ValueCodec::identity, rng);
  Floats four(4);
  CHECK(two.size() == encoded_size(all, 4));
  CHECK_FALSE(decode(all, two, four));
}

TEST_CASE("any bytes give finite values or are refused") {
  Rng rng(25);
  int accepted = 0, refused = 0;
  for (const LossyCodec& codec : codecs) {
    for (int i = 0; i < 2000; ++i) {
      const std::size_t d = 1 + rng.below(i % 20 == 0 ? 1200 : 60);
      Bytes bytes = encoded(codec, any_vector(d, rng), rng);
      const bool is_noise = rng.chance(0.3);
      if (is_noise) {
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next());
      }
      for (std::uint64_t damage = 1 + rng.below(3); damage > 0; --damage) {
        bytes[rng.below(bytes.size())] = static_cast<std::byte>(rng.next());
      }
      if (rng.chance(0.05)) bytes.resize(rng.below(bytes.size() + 20));
      Floats out(d);
      const bool is_sound = decode(codec, bytes, out);
      ++(is_sound ? accepted : refused);
      if (!is_sound) continue;
      for (const float value : out) REQUIRE(std::isfinite(value));
    }
  }
  CHECK(accepted > 1000);
  CHECK(refused > 1000);
}

// ---- Names and parameters ----

TEST_CASE("a lossy codec is known by its name") {
  for (const LossyKind kind : lossy_kinds) CHECK(lossy_kind_named(to_string(kind)) == kind);
  CHECK_FALSE(lossy_kind_named("qsgd8"));
  CHECK_FALSE(lossy_kind_named(""));
}

TEST_CASE("parameters that make no codec are all named") {
  CHECK(problems_of({}).empty());
  for (const LossyCodec& codec : codecs) CHECK(problems_of(codec).empty());
  for (const double fraction : {0.0, -0.1, 1.01, std::nan("")}) {
    const Problems problems = problems_of({.fraction = fraction});
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].place == "fraction");
  }
  for (const unsigned levels : {0u, 128u}) {
    const Problems problems = problems_of({.levels = levels});
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].place == "levels");
  }
  CHECK(problems_of({.kind = static_cast<LossyKind>(8), .fraction = 2, .levels = 0}).size() == 3);
}

}  // namespace gv
