// Laws of every gradient compressor in the table: what travels, what is kept, and what comes back.
#include "consensus/compression/compressors.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/rng.hpp"

namespace gv {
namespace {

constexpr std::size_t elements = 2100;
constexpr std::size_t peers = 3;
constexpr std::uint32_t samples = 2;  // Of each peer.
/// One layer of 40 outputs and 50 inputs, with biases before and behind it.
constexpr MatrixPlace layer{.begin = 10, .rows = 40, .cols = 50};
/// Gradients are about 1, and so is their sum over 20 steps times a few roundings of floats.
constexpr double tolerance = 2e-4;

/// Options that choose this row of the table.
CompressorOptions options_for(const CompressorKind& kind) {
  CompressorOptions options;
  if (kind.name == "top_k") options.top_k_per_512 = 40;
  if (kind.name == "power_sgd") options.rank = 2;
  if (kind.name == "sufficient_factors") options.sufficient_factors = true;
  REQUIRE(&chosen_compressor(options) == &kind);
  return options;
}

std::unique_ptr<GradientCompressor> make(const CompressorKind& kind) {
  return make_compressor(options_for(kind), elements,
                         {.matrices = {layer}, .dense = {{.place = layer}}});
}

GradientSum sum_of(std::uint64_t number, std::size_t rank = 0) {
  return {.step = number,
          .generation = 7,
          .number = number,
          .shares = std::vector<std::uint32_t>(peers, samples),
          .rank = rank};
}

/// What a peer's learner computes in a step.
struct Learned {
  std::vector<float> gradient;  ///< The mean over its samples.
  std::vector<float> given;     ///< The same as a plan asks for it: maybe with a layer's factors.
};

Learned learn(const CompressionPlan& plan) {
  Rng rng = Rng(5).fork(plan.sum.step).fork(plan.sum.rank);
  Learned learned{.gradient = std::vector<float>(elements), .given = {}};
  for (float& value : learned.gradient) value = static_cast<float>(rng.normal());
  std::vector<float> dy(samples * layer.rows);
  std::vector<float> x(samples * layer.cols);
  for (float& value : dy) value = static_cast<float>(rng.normal());
  for (float& value : x) value = static_cast<float>(rng.normal());
  for (std::size_t row = 0; row < layer.rows; ++row) {
    for (std::size_t col = 0; col < layer.cols; ++col) {
      float sum = 0;
      for (std::size_t s = 0; s < samples; ++s) {
        sum += dy[s * layer.rows + row] * x[s * layer.cols + col];
      }
      learned.gradient[layer.begin + row * layer.cols + col] = sum;
    }
  }
  learned.given = learned.gradient;
  if (plan.factored.empty()) return learned;
  REQUIRE(plan.factored == std::vector{layer.begin});
  // The deltas are of the mean over samples already.
  const auto at = learned.given.begin() + static_cast<std::ptrdiff_t>(layer.begin);
  std::ranges::copy(x, std::ranges::copy(dy, at).out);
  return learned;
}

/// What a peer sends; empty if it cannot be written.
std::vector<float> encoded(GradientCompressor& by, const CompressionPlan& plan,
                           std::vector<float> given) {
  std::vector<float> out(plan.in_place ? 0 : plan.elements);
  if (!by.encode(plan, given, out, Rng(plan.sum.step))) return {};
  return plan.in_place ? given : out;
}

/// What an all-reduce makes of it: parts are gathered, the rest is averaged.
std::vector<float> reduced(const CompressionPlan& plan,
                           const std::vector<std::vector<float>>& sent) {
  std::vector<float> sum(plan.elements);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    for (const std::vector<float>& one : sent) sum[i] += one[i] / static_cast<float>(sent.size());
  }
  for (std::size_t rank = 0; rank < plan.parts.size(); ++rank) {
    for (std::size_t i = plan.parts[rank].begin; i < plan.parts[rank].end; ++i) {
      sum[i] = sent[rank][i];
    }
  }
  return sum;
}

/// Peers that make sums together.
struct Peers {
  explicit Peers(const CompressorKind& kind) {
    for (std::size_t rank = 0; rank < peers; ++rank) own.push_back(make(kind));
  }

  /// One step. Adds the mean gradient and what all step by to the totals.
  void step(std::uint64_t number) {
    std::vector<std::vector<float>> sent;
    for (std::size_t rank = 0; rank < peers; ++rank) {
      const CompressionPlan plan = own[rank]->plan(sum_of(number, rank));
      const Learned learned = learn(plan);
      sent.push_back(encoded(*own[rank], plan, learned.given));
      REQUIRE(sent.back().size() == plan.elements);
      for (std::size_t i = 0; i < elements; ++i) given[i] += learned.gradient[i] / peers;
    }
    std::vector<float> first;
    for (std::size_t rank = 0; rank < peers; ++rank) {
      const CompressionPlan plan = own[rank]->plan(sum_of(number, rank));
      const std::vector<float> sum = reduced(plan, sent);
      const auto mean = own[rank]->decode(plan, sum);
      REQUIRE(mean.size() >= elements);
      if (rank == 0) first.assign(mean.begin(), mean.begin() + elements);
      REQUIRE(std::ranges::equal(mean.first(elements), first));
    }
    for (std::size_t i = 0; i < elements; ++i) taken[i] += static_cast<double>(first[i]);
  }

  /// What peer number `rank` has not sent yet of element i.
  double kept(std::size_t rank, std::size_t i) const {
    double sum = 0;
    for (const auto& [name, values] : own[rank]->lasting()) sum += static_cast<double>(values[i]);
    return sum;
  }

  std::vector<std::unique_ptr<GradientCompressor>> own;
  std::vector<double> given = std::vector<double>(elements);
  std::vector<double> taken = std::vector<double>(elements);
};

}  // namespace

TEST_CASE("compressors have names and settings of their own", "[unit]") {
  std::set<std::string_view> names;
  std::set<std::string_view> settings;
  for (const CompressorKind& kind : compressor_kinds()) {
    CHECK(names.insert(kind.name).second);
    CHECK(settings.insert(kind.setting).second);
    CHECK(problems_of(options_for(kind), false).empty());
  }
  CHECK(chosen_compressor({}).name == "whole");
}

TEST_CASE("what travels fits the longest sum and is cut alike at all peers", "[unit]") {
  for (const CompressorKind& kind : compressor_kinds()) {
    INFO(kind.name);
    const auto compressor = make(kind);
    for (std::uint64_t number = 0; number < 4; ++number) {
      const CompressionPlan plan = compressor->plan(sum_of(number));
      CHECK(plan.elements > 0);
      CHECK(plan.elements <= compressor->longest());
      CHECK((!plan.in_place || plan.elements == elements));
      CHECK((!plan.piecewise || plan.in_place));
      CHECK((plan.parts.empty() || plan.parts.size() == peers));
      std::size_t end = 0;
      for (const Range& part : plan.parts) {
        CHECK(part.begin == end);
        end = part.end;
      }
      CHECK(end <= plan.elements);
      CHECK((plan.parts.empty() || compressor->wire().is_plain()));
      const CompressionPlan other = compressor->plan(sum_of(number, 2));
      CHECK(other.elements == plan.elements);
      CHECK(other.parts == plan.parts);
      CHECK(other.factored == plan.factored);
    }
  }
}

TEST_CASE("what all step by and what is kept add up to all gradients", "[unit]") {
  for (const CompressorKind& kind : compressor_kinds()) {
    INFO(kind.name);
    Peers all(kind);
    for (std::uint64_t number = 0; number < 20; ++number) all.step(number);
    for (std::size_t i = 0; i < elements; ++i) {
      double kept = 0;
      for (std::size_t rank = 0; rank < peers; ++rank) kept += all.kept(rank, i) / peers;
      REQUIRE(all.taken[i] + kept == Approx(all.given[i]).margin(tolerance));
    }
  }
}

TEST_CASE("a gradient encoded again before its sum has come is the same", "[unit]") {
  for (const CompressorKind& kind : compressor_kinds()) {
    INFO(kind.name);
    Peers all(kind);
    for (std::uint64_t number = 0; number < 3; ++number) all.step(number);
    const CompressionPlan plan = all.own[0]->plan(sum_of(3));
    const auto given = learn(plan).given;
    const auto before = all.own[0]->lasting();
    const auto once = encoded(*all.own[0], plan, given);
    CHECK(encoded(*all.own[0], plan, given) == once);
    CHECK(all.own[0]->lasting() == before);
  }
}

TEST_CASE("a compressor goes on from a checkpoint as if nothing had happened", "[unit]") {
  for (const CompressorKind& kind : compressor_kinds()) {
    INFO(kind.name);
    Peers all(kind);
    for (std::uint64_t number = 0; number < 5; ++number) all.step(number);
    GradientCompressor& original = *all.own[1];
    const auto restored = original.blank();
    for (const auto& [name, values] : original.lasting()) restored->restore(name, values);
    CHECK(restored->lasting() == original.lasting());
    // A peer that comes back begins a generation.
    GradientSum sum = sum_of(0, 1);
    sum.generation = 8;
    const CompressionPlan plan = original.plan(sum);
    const auto given = learn(plan).given;
    CHECK(encoded(*restored, plan, given) == encoded(original, plan, given));
  }
}

TEST_CASE("a blank compressor keeps nothing and neither does one whose model was replaced",
          "[unit]") {
  for (const CompressorKind& kind : compressor_kinds()) {
    INFO(kind.name);
    Peers all(kind);
    for (std::uint64_t number = 0; number < 3; ++number) all.step(number);
    CHECK(all.own[0]->blank()->lasting().empty());
    all.own[0]->clear();
    CHECK(all.own[0]->lasting().empty());
    all.own[0]->restore("another", {1, 2, 3});
    CHECK(all.own[0]->lasting().empty());
  }
}

TEST_CASE("what is kept of gradients is not added to changes by local steps", "[unit]") {
  for (const CompressorKind& kind : compressor_kinds()) {
    if (!kind.with_local_steps.reason.empty()) continue;
    INFO(kind.name);
    Peers all(kind);
    for (std::uint64_t number = 0; number < 3; ++number) all.step(number);
    GradientSum sum = sum_of(0);
    sum.local = true;
    const CompressionPlan plan = all.own[0]->plan(sum);
    const auto given = learn(plan).given;
    CHECK(encoded(*all.own[0], plan, given) == encoded(*make(kind), plan, given));
    CHECK(all.own[0]->lasting().empty());
  }
}

TEST_CASE("no compressor sends a gradient that is not finite", "[unit]") {
  const float bad =
      GENERATE(std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN());
  for (const CompressorKind& kind : compressor_kinds()) {
    INFO(kind.name);
    const auto compressor = make(kind);
    const CompressionPlan plan = compressor->plan(sum_of(0));
    for (const std::size_t at : {std::size_t{0}, layer.begin + 3, elements - 1}) {
      auto given = learn(plan).given;
      given[at] = bad;
      CHECK(encoded(*compressor, plan, given).empty());
    }
  }
}

TEST_CASE("compressors that clash are told apart with a remedy", "[unit]") {
  const CompressorOptions both{.top_k_per_512 = 8, .rank = 2};
  REQUIRE(problems_of(both, false).size() == 1);
  CHECK(problems_of(both, false)[0].place == "rank");
  const CompressorOptions coded{.codec = Codec::fp16, .sufficient_factors = true};
  REQUIRE(problems_of(coded, true).size() == 2);
  CHECK(problems_of(coded, true)[1].remedy.find("period = 1") != std::string::npos);
  CHECK(problems_of({.codec = Codec::fp16, .rank = 2}, true).empty());
}

}  // namespace gv
