// The bounds of mixing rules with lossy codecs, and training with every remedy.
#include "consensus/mixing/codec_bounds.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/consensus/codec_lab.hpp"
#include "tests/consensus/mixing_lab.hpp"

namespace gv {
namespace {

constexpr std::size_t peers = 8;

Codec drawn(double fraction) { return {.kind = CodecKind::random_k, .fraction = fraction}; }

MixRule remembering(const Codec& codec, TopologyKind topology) {
  return {.topology = {.kind = topology}, .codec = codec, .memory = MixMemory::difference};
}

TEST_CASE("a damped codec loses as little as one scale for all values can", "[unit]") {
  Rng rng(3);
  // One draw in four turns 0.5 into 2. So the result's squares sum to 4 + 2 + 1 on average, while
  // those of the values sum to 5.25. The scale is therefore 2 * 5.25 / 7.
  const Codec ternary{.kind = CodecKind::terngrad, .damped = true};
  const Floats x = {1, -2, 0.5F, 0};
  for (int i = 0; i < 20; ++i) {
    for (const float value : passed_through(ternary, x, rng)) {
      CHECK((value == 0 || std::abs(value) == 1.5F));
    }
  }
  // Both codecs make the same draws, so a damped code is a multiple of the undamped one.
  const Floats values = normals(512, rng);
  for (const Codec& codec : {Codec{.kind = CodecKind::terngrad}, Codec::qsgd4, drawn(0.1)}) {
    INFO(name_of(codec));
    Codec damped = codec;
    damped.damped = true;
    double lost = 0;
    constexpr int draws = 200;
    for (int i = 0; i < draws; ++i) {
      Rng same = rng.fork(static_cast<std::uint64_t>(i));
      Rng copy = same;
      const Floats whole = passed_through(codec, values, same);
      const Floats smaller = passed_through(damped, values, copy);
      const auto k = static_cast<std::size_t>(
          std::ranges::find_if(whole, [](float value) { return value != 0; }) - whole.begin());
      const float factor = smaller[k] / whole[k];
      for (std::size_t j = 0; j < whole.size(); ++j) {
        REQUIRE(smaller[j] == Approx(factor * whole[j]).epsilon(1e-5));
      }
      lost += squared_distance(smaller, values) / squares(values) / draws;
    }
    CHECK(lost == Approx(1 - usual_delta(codec, 512)).margin(0.03));
    CHECK(traits_of(damped, 512).delta == Approx(1 / (1 + traits_of(codec, 512).omega)));
    CHECK_FALSE(traits_of(damped, 512).unbiased);
  }
  CHECK(usual_delta({.kind = CodecKind::terngrad}, 1024) == Approx(0.4).margin(0.02));
  CHECK(usual_delta(drawn(0.25), 1024) == 0.25);
  // The signs of normal values keep 2 / pi of the sum of squares. The largest tenth of the values
  // keeps 0.44 of it.
  CHECK(usual_delta({.kind = CodecKind::sign}, 1024) == Approx(0.6366).margin(0.01));
  CHECK(usual_delta({.kind = CodecKind::top_k, .fraction = 0.1}, 1024) ==
        Approx(0.439).margin(0.02));
}

TEST_CASE("the largest gamma follows from what a codec keeps and how far a round pulls", "[unit]") {
  const auto largest = [](double fraction, TopologyKind topology) {
    return largest_gamma(remembering(drawn(fraction), topology), peers);
  };
  CHECK(largest_pull({}, peers) == Approx(4.0 / 3).epsilon(1e-3));
  CHECK(largest_pull({.topology = {.kind = TopologyKind::complete}}, peers) == Approx(1));
  CHECK(largest_pull({.alpha = 0.25}, peers) == Approx(1).epsilon(1e-3));
  CHECK(largest_pull({}, 1) == 0);
  // 1024 is not a multiple of 10 or 100, so 103 and 11 values are kept.
  CHECK(largest(0.5, TopologyKind::ring) == Approx(0.5).epsilon(0.01));
  CHECK(largest(0.1, TopologyKind::ring) == Approx(0.0789).epsilon(0.02));
  CHECK(largest(0.5, TopologyKind::complete) == Approx(0.6667).epsilon(0.01));
  CHECK(largest(0.01, TopologyKind::complete) == Approx(0.01005).epsilon(0.08));
  CHECK(largest_gamma(remembering({.kind = CodecKind::terngrad}, TopologyKind::ring), peers) ==
        Approx(0.375).epsilon(0.06));
}

TEST_CASE("drawn values bring models together below the largest gamma and not far above it",
          "[unit]") {
  for (const TopologyKind topology : {TopologyKind::ring, TopologyKind::complete}) {
    for (const Codec& codec : {drawn(0.1), Codec{.kind = CodecKind::terngrad}}) {
      INFO(to_string(topology) << ' ' << name_of(codec));
      MixRule rule = remembering(codec, topology);
      const double bound = largest_gamma(rule, peers);
      const auto spread_at = [&](double gamma) {
        rule.gamma = gamma;
        MixingLab lab(rule, drawn_models(peers, 512));
        const double before = lab.spread_squared();
        for (int i = 0; i < 400 && lab.spread_squared() < 1e6 * before; ++i) lab.round({}, 0);
        return lab.spread_squared() / before;
      };
      CHECK(spread_at(0.9 * bound) < 1e-3);
      CHECK(spread_at(2.5 * bound) > 10);
    }
  }
}

TEST_CASE("without memory noise leaves the floor that is said", "[unit]") {
  MixRule rule{.topology = {.kind = TopologyKind::complete},
               .gamma = 0.5,
               .codec = {.kind = CodecKind::terngrad}};
  const double omega = 1 / usual_delta(rule.codec, 1024) - 1;
  constexpr double c = 7.0 / 8 * 0.5 / 1.5;  // Seven of the eight eigenvalues are 1.
  CHECK(floor_of_noise(rule, peers) == Approx(omega * c / (1 - omega * c)).epsilon(1e-3));
  rule.gamma = 1;
  CHECK(std::isinf(floor_of_noise(rule, peers)));
  rule.codec = Codec::qsgd8;
  CHECK(floor_of_noise(rule, peers) < 1e-3);
  // In a ring with weights of 1/2 differences keep flipping their signs, and noise adds up.
  CHECK(std::isinf(floor_of_noise({.alpha = 0.5, .codec = Codec::qsgd8}, peers)));
}

/// Applies a remedy. If it offers an alternative after ", or ", `second` selects the alternative.
MixRule remedied(MixRule rule, const std::string& remedy, bool second) {
  const std::size_t other = remedy.find(", or ");
  std::string text = remedy;
  if (other != std::string::npos) text = second ? remedy.substr(other) : remedy.substr(0, other);
  bool is_understood = false;
  if (text.find("\"qsgd\" with 127 levels") != std::string::npos) {
    rule.codec = Codec::qsgd8;
    is_understood = true;
  }
  if (text.find("memory = \"difference\"") != std::string::npos) {
    rule.memory = MixMemory::difference;
    is_understood = true;
  }
  if (const std::size_t gamma = text.find("gamma = "); gamma != std::string::npos) {
    rule.gamma = std::strtod(text.c_str() + gamma + 8, nullptr);
    is_understood = true;
  }
  INFO(remedy);
  REQUIRE(is_understood);
  return rule;
}

/// True if the peers' mean comes close to the mean of their different targets, and the peers end no
/// further apart than without mixing. Without mixing, their squared spread would be 7/8 in each
/// element.
bool trains(const MixRule& rule) {
  constexpr std::size_t elements = 128;
  const auto targets = drawn_models(peers, elements, 3);
  MixingLab lab(rule, std::vector<MixingLab::Vector>(peers, MixingLab::Vector(elements)));
  lab.rounds(150, pulls_to(targets), 0.04);
  MixingLab::Vector off = lab.mean();
  for (std::size_t k = 0; k < elements; ++k) {
    for (const auto& target : targets) off[k] -= target[k] / peers;
  }
  double squares = 0;
  for (const double value : off) squares += value * value / elements;
  return std::isfinite(squares) && squares < 0.02 && lab.spread_squared() < 0.9 * elements;
}

TEST_CASE("every remedy for a lossy codec trains", "[unit]") {
  const std::vector<Codec> lossy = {{.kind = CodecKind::terngrad},
                                    {.kind = CodecKind::sign},
                                    {.kind = CodecKind::qsgd, .levels = 3},
                                    {.kind = CodecKind::top_k},
                                    {.kind = CodecKind::top_k, .fraction = 0.1},
                                    drawn(0.01),
                                    drawn(0.6)};
  std::size_t trained = 0;
  for (const TopologyKind topology :
       {TopologyKind::ring, TopologyKind::complete, TopologyKind::torus, TopologyKind::matching}) {
    for (const MixMemory memory :
         {MixMemory::none, MixMemory::difference, MixMemory::error_feedback}) {
      const bool is_fixed = topology == TopologyKind::ring || topology == TopologyKind::complete;
      if (!is_fixed && memory != MixMemory::none) continue;
      for (const Codec& codec : lossy) {
        const MixRule wrong{.topology = {.kind = topology}, .codec = codec, .memory = memory};
        const Problems problems = problems_of(wrong, peers);
        for (const Problem& problem : problems) {
          for (const bool second : {false, true}) {
            if (second && problem.remedy.find(", or ") == std::string::npos) continue;
            const MixRule right = remedied(wrong, problem.remedy, second);
            INFO(name_of(wrong) << ' ' << name_of(codec) << ": " << problem.reason << "; "
                                << problem.remedy);
            CHECK(problems_of(right, peers).empty());
            CHECK(trains(right));
            ++trained;
          }
        }
      }
    }
  }
  CHECK(trained > 40);
}

}  // namespace
}  // namespace gv
