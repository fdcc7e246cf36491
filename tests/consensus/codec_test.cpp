// Every lossy codec obeys its traits. The checks are derived from the traits.
#include "consensus/codec/codec.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string_view>
#include <vector>

#include "tests/consensus/codec_lab.hpp"

namespace gv {
namespace {

/// The codecs whose traits for vectors of this size satisfy `wanted`.
std::vector<Codec> those(const std::function<bool(const CodecTraits&)>& wanted,
                         std::size_t elements) {
  std::vector<Codec> found;
  for (const Codec& codec : codecs) {
    if (wanted(traits_of(codec, elements))) found.push_back(codec);
  }
  return found;
}

bool is_only_unbiased(const CodecTraits& traits) { return !traits.lossless && traits.unbiased; }
bool is_only_contractive(const CodecTraits& traits) { return !traits.lossless && traits.delta > 0; }

/// The variance of each value of C(x), by the formula for this unbiased codec.
std::vector<double> variances_of(const Codec& codec, const Floats& x) {
  std::vector<double> variances;
  if (codec.kind == CodecKind::random_k) {
    const double k = std::max(1.0, std::ceil(codec.fraction * static_cast<double>(x.size())));
    for (const double value : x) variances.push_back((x.size() / k - 1) * value * value);
    return variances;
  }
  const int levels = codec.kind == CodecKind::terngrad ? 1 : static_cast<int>(codec.levels);
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

/// The vector of which a codec with s levels loses the largest fraction. See CodecTraits.
Floats worst_for_levels(double s, std::size_t n) {
  Floats values(n, static_cast<float>(s / (s + std::sqrt(s * s + static_cast<double>(n - 1)))));
  values.back() = static_cast<float>(s);
  return values;
}

}  // namespace

// ---- Traits ----

TEST_CASE("a lossy codec is unbiased or contractive and never both") {
  for (const Codec& codec : codecs) {
    for (const std::size_t d : {2u, 100u, 600u, 100000u}) {
      const CodecTraits traits = traits_of(codec, d);
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
  const auto traits = [](CodecKind kind) { return traits_of({.kind = kind}, 10000); };
  CHECK(traits(CodecKind::identity).lossless);
  for (const CodecKind kind : {CodecKind::qsgd, CodecKind::terngrad, CodecKind::random_k}) {
    CHECK(is_only_unbiased(traits(kind)));
  }
  for (const CodecKind kind :
       {CodecKind::fp16, CodecKind::bf16, CodecKind::sign, CodecKind::top_k}) {
    CHECK(is_only_contractive(traits(kind)));
  }
  CHECK(traits(CodecKind::top_k).delta == 0.01);
  CHECK(traits(CodecKind::random_k).omega == 99);
  CHECK(traits(CodecKind::sign).delta == 1.0 / 512);
  // These are the figures in codec/qsgd for 127 and 7 levels.
  CHECK(traits_of({.kind = CodecKind::qsgd, .levels = 127}, 512).omega ==
        Approx(0.0079).epsilon(0.01));
  CHECK(traits_of({.kind = CodecKind::qsgd, .levels = 7}, 512).omega == Approx(1.19).epsilon(0.01));
}

TEST_CASE("what is lossless comes back as it was") {
  Rng rng(1);
  for (const std::size_t d : {1u, 2u, 100u, 600u, 70000u}) {
    for (const Codec& codec : those(&CodecTraits::lossless, d)) {
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
  for (const Codec& codec : those(is_only_unbiased, d)) {
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
      // The margin is five standard errors of the mean, plus the rounding of results to float.
      REQUIRE(std::abs(sums[i] / rounds - x[i]) <= 5 * std::sqrt(variances[i] / rounds) + 1e-6);
    }
    // The mean of 4000 squared errors is accurate to a tenth for one value, and more accurate for
    // several.
    CHECK(error == Approx(sum(variances)).epsilon(0.1).margin(1e-6));
  }
}

TEST_CASE("unbiased codecs never vary more than omega and there is a vector that does as much") {
  Rng rng(2);
  for (const std::size_t d : {2u, 3u, 100u, 512u, 600u}) {
    for (const Codec& codec : those(is_only_unbiased, d)) {
      const double omega = traits_of(codec, d).omega;
      INFO(name_of(codec) << " of " << d << ": " << omega);
      for (int i = 0; i < 200; ++i) {
        const Floats x = any_vector(d, rng);
        REQUIRE(sum(variances_of(codec, x)) <= omega * squares(x) * (1 + 1e-9));
      }
      const double s = codec.kind == CodecKind::qsgd ? codec.levels : 1;
      Floats worst = worst_for_levels(s, std::min<std::size_t>(d, 512));
      worst.resize(d);
      // The tolerance allows for the rounding of the vector to float.
      CHECK(sum(variances_of(codec, worst)) == Approx(omega * squares(worst)).epsilon(1e-5));
    }
  }
}

TEST_CASE("an unbiased codec divided by one more than omega is contractive in the mean") {
  Rng rng(3);
  const std::size_t d = 600;
  for (const Codec& codec : those(is_only_unbiased, d)) {
    const double omega = traits_of(codec, d).omega;
    const Floats x = normals(d, rng);
    double left = 0;
    for (int round = 0; round < 500; ++round) {
      Floats result = passed_through(codec, x, rng);
      for (float& value : result) value = static_cast<float>(value / (1 + omega));
      left += squared_distance(result, x) / 500;
    }
    INFO(name_of(codec));
    // The bound is 1 - 1/(1 + omega). The mean of 500 draws is accurate to 1 %, even if few values
    // are kept.
    CHECK(left <= omega / (1 + omega) * squares(x) * 1.01);
  }
}

TEST_CASE("contractive codecs lose no more than their share of anything") {
  const std::size_t d = GENERATE(1, 2, 7, 100, 513, 1300);
  Rng rng(d);
  for (const Codec& codec : those(is_only_contractive, d)) {
    const double kept = 1 - traits_of(codec, d).delta;
    // Half of the smallest subnormal number: 2^-25 in fp16 and 2^-134 in bf16.
    const double least = codec.kind == CodecKind::fp16 ? 0x1p-25 : 0x1p-134;
    INFO(name_of(codec) << " of " << d);
    for (int i = 0; i<10000; i += d> 100 ? 10 : 1) {
      const Floats x = any_vector(d, rng);
      const Floats result = passed_through(codec, x, rng);
      REQUIRE(result.size() == d);
      // 1e-6 allows for a scale that is rounded to float.
      const double most = kept * squares(x) * (1 + 1e-6) + static_cast<double>(d) * least * least;
      REQUIRE(squared_distance(result, x) <= most);
    }
  }
}

TEST_CASE("the smallest and largest numbers pass through every codec") {
  Rng rng(4);
  const float smallest = std::numeric_limits<float>::denorm_min();
  for (const Codec& codec : codecs) {
    for (const std::size_t d : {1u, 3u, 600u}) {
      const CodecTraits traits = traits_of(codec, d);
      INFO(name_of(codec) << " of " << d);
      for (const float value : {smallest, -smallest, 0x1p-130f, 60000.0f, -60000.0f}) {
        Floats x(d);
        x[d / 2] = value;
        const Floats result = passed_through(codec, x, rng);
        REQUIRE(result.size() == d);
        if (traits.lossless || codec.kind == CodecKind::top_k) CHECK(result == x);
        // A single non-zero value is the largest in its bucket.
        if (codec.kind == CodecKind::qsgd || codec.kind == CodecKind::terngrad) CHECK(result == x);
      }
      CHECK(passed_through(codec, Floats(d), rng) == Floats(d));
    }
  }
}

TEST_CASE("linear codes of generators in one state sum to the code of the sum") {
  const std::size_t d = 600;
  const Rng shared(5);
  Rng rng(6);
  for (const Codec& codec : those(&CodecTraits::linear, d)) {
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
      // Each of the three codes is rounded once. All values are below 1000.
      REQUIRE(code_both[i] == Approx(code_x[i] + code_y[i]).margin(3e-4));
      REQUIRE((code_both[i] == 0) == (code_x[i] == 0));
    }
  }
  // The linear codecs are identity, random_k, and top_k with all values kept.
  CHECK(those(&CodecTraits::linear, d).size() == 5);
}

// ---- Error feedback ----

TEST_CASE("what was sent and what is remembered is what there was with every codec") {
  constexpr int rounds = 300;
  constexpr std::size_t d = 600;
  Rng rng(16);
  for (const Codec& codec : codecs) {
    const CodecTraits traits = traits_of(codec, d);
    // Values for unbiased codecs must be scaled down before they are sent. Otherwise the memory
    // varies more than the message, and grows.
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
    // Each round makes two roundings, each by at most half of 2^-23 of the value.
    for (std::size_t i = 0; i < d; ++i) {
      REQUIRE(std::abs(sent[i] + memory[i] - given[i]) <= rounds * 0x1p-23 * largest);
    }
    // The bound is lemma 3 of Karimireddy 2019.
    CHECK(squares(memory) <= 4 * (1 - delta) / (delta * delta) * gradient_squares + 1e-6);
  }
}

// ---- Names and parameters ----

TEST_CASE("kinds of codecs have names of their own") {
  std::set<std::string_view> names;
  for (const CodecKind kind : codec_kinds) CHECK(names.insert(to_string(kind)).second);
  CHECK(to_string(static_cast<CodecKind>(codec_kinds.size())) == "unknown");
}

TEST_CASE("bits of a value are those of the code divided by its values") {
  for (const Codec& codec : codecs) {
    for (const std::size_t d : {1, 512, 70000}) {
      const double bits = 8.0 * static_cast<double>(encoded_size(codec, d));
      CHECK(traits_of(codec, d).bits * static_cast<double>(d) == Approx(bits));
    }
  }
  CHECK(traits_of(Codec::qsgd4, 512).bits == 4 + 32.0 / 512);
  CHECK(traits_of({.kind = CodecKind::sign}, 512).bits == 1 + 32.0 / 512);
}

TEST_CASE("parameters that make no codec are all named") {
  CHECK(problems_of({}).empty());
  for (const Codec& codec : codecs) CHECK(problems_of(codec).empty());
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
  CHECK(problems_of({.kind = static_cast<CodecKind>(8), .fraction = 2, .levels = 0}).size() == 3);
}

}  // namespace gv
