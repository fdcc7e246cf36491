// Laws of every gradient compressor in the table: what it sends, what it keeps, and what it
// decodes.
#include "consensus/compression/compressors.hpp"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fingerprint.hpp"
#include "base/magnitude.hpp"
#include "base/rng.hpp"
#include "consensus/allreduce/all_reduce.hpp"

namespace gv {
namespace {

constexpr std::size_t elements = 2100;
constexpr std::size_t peers = 3;
constexpr std::uint32_t samples = 2;  // Number of samples that each peer has.
/// A layer with 40 outputs and 50 inputs. Its biases come before and after it.
constexpr MatrixPlace layer{.begin = 10, .rows = 40, .cols = 50};
/// Bound on the rounding errors when gradients of size about 1 are summed over 20 steps.
constexpr double tolerance = 2e-4;

/// Options that choose this compressor.
CompressorOptions options_for(const CompressorKind& kind) {
  CompressorOptions options;
  if (kind.name == "top_k") options.top_k_per_512 = 40;
  if (kind.name == "power_sgd") options.rank = 2;
  if (kind.name == "sufficient_factors") options.sufficient_factors = true;
  if (kind.name == "one_bit") options.one_bit = true;
  if (kind.name == "random_k") options.random_k_per_512 = 40;
  if (kind.name == "ternary") options.ternary = true;
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

/// The gradient that a peer's learner computes in a step.
struct Learned {
  std::vector<float> gradient;  ///< The mean gradient over the peer's samples.
  /// The gradient in the form that the plan asks for. It may contain a layer's factors instead of
  /// its gradient.
  std::vector<float> given;
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
  // The deltas already include the division by the number of samples.
  const auto at = learned.given.begin() + static_cast<std::ptrdiff_t>(layer.begin);
  std::ranges::copy(x, std::ranges::copy(dy, at).out);
  return learned;
}

/// The values that a peer sends. Empty if the gradient cannot be encoded.
std::vector<float> encoded(GradientCompressor& by, const CompressionPlan& plan,
                           std::vector<float> given) {
  std::vector<float> out(plan.in_place ? 0 : plan.elements);
  if (!by.encode(plan, given, out, Rng(plan.sum.step))) return {};
  return plan.in_place ? given : out;
}

/// Compares bits, because the floats may hold packed values.
bool have_same_bits(std::span<const float> a, std::span<const float> b) {
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  return std::ranges::equal(a, b, {}, bits, bits);
}

/// The result of an all-reduce: parts are gathered, and everything else is averaged.
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

/// Peers that sum their gradients.
struct Peers {
  explicit Peers(const CompressorKind& kind) {
    for (std::size_t rank = 0; rank < peers; ++rank) own.push_back(make(kind));
  }

  /// Makes one step. Adds the mean gradient to `given` and the peers' common update to `taken`.
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

  /// The part of element i that peer `rank` has not sent yet.
  double kept(std::size_t rank, std::size_t i) const {
    double sum = 0;
    for (const auto& [name, values] : own[rank]->lasting()) sum += static_cast<double>(values[i]);
    return sum;
  }

  std::vector<std::unique_ptr<GradientCompressor>> own;
  std::vector<double> given = std::vector<double>(elements);
  std::vector<double> taken = std::vector<double>(elements);
};

/// Mean number of bytes that each of `n` peers sends to sum a gradient of `size` values. Also
/// checks that all peers get the same result.
double bytes_sent(const CompressorOptions& options, std::size_t n, std::size_t size) {
  AllReduceShape shape;
  shape.generation = 7;
  std::vector<std::unique_ptr<GradientCompressor>> own;
  std::deque<AllReduce> sums;
  std::deque<std::pair<PeerId, Transfer>> on_the_way;
  for (std::size_t rank = 0; rank < n; ++rank) shape.order.push_back(PeerId{rank + 1});
  const auto post = [&](PeerId from, Effects& out) {
    for (Transfer& transfer : out.transfers) on_the_way.emplace_back(from, std::move(transfer));
  };
  std::vector<CompressionPlan> plans;
  for (std::size_t rank = 0; rank < n; ++rank) {
    own.push_back(make_compressor(options, size));
    const CompressionPlan plan =
        own[rank]->plan({.shares = std::vector<std::uint32_t>(n, samples), .rank = rank});
    shape.parts = plan.parts;
    shape.buckets = {{0, plan.elements}};
    Rng rng(rank);
    std::vector<float> given(size);
    for (float& value : given) value = static_cast<float>(rng.normal());
    const std::vector<float> sent = encoded(*own[rank], plan, given);
    sums.emplace_back(shape, shape.order[rank], 0, 1,
                      std::make_shared<Floats>(sent.begin(), sent.end()),
                      std::make_shared<Floats>(sent.size()));
    Effects out;
    sums.back().ready(0, out);
    post(shape.order[rank], out);
    plans.push_back(plan);
  }
  while (!on_the_way.empty()) {
    const auto [from, transfer] = std::move(on_the_way.front());
    on_the_way.pop_front();
    const auto to = static_cast<std::size_t>(transfer.to) - 1;
    Effects out;
    REQUIRE(sums[to].receive(from, {transfer.id, 0, transfer.payload.bytes}, out));
    post(transfer.to, out);
  }
  double bytes = 0;
  const auto first = own[0]->decode(plans[0], *sums[0].result());
  for (std::size_t rank = 0; rank < n; ++rank) {
    REQUIRE(sums[rank].done());
    REQUIRE(std::ranges::equal(own[rank]->decode(plans[rank], *sums[rank].result()), first));
    bytes += static_cast<double>(sums[rank].bytes_sent());
  }
  return bytes / static_cast<double>(n);
}

/// The distance of 4 peers from their common optimum, relative to the start, after `steps` steps of
/// gradient descent with the learning rate `rate`. `forgets` turns error feedback off. Peer i
/// minimises 1/2 sum_k h_k (x_k - c_ik)^2, with h_k from 0.1 to 1.
double distance_after(std::uint64_t steps, const CompressorOptions& options, double rate,
                      bool forgets = false) {
  constexpr std::size_t n = 4;
  constexpr std::size_t size = 1100;
  std::vector<std::unique_ptr<GradientCompressor>> own;
  std::vector<std::vector<double>> centres(n, std::vector<double>(size));
  std::vector<double> optimum(size);
  for (std::size_t rank = 0; rank < n; ++rank) {
    own.push_back(make_compressor(options, size));
    Rng rng(rank);
    for (std::size_t k = 0; k < size; ++k) {
      centres[rank][k] = 1 + rng.normal();
      optimum[k] += centres[rank][k] / n;
    }
  }
  std::vector<double> x(size);
  for (std::uint64_t step = 0; step < steps; ++step) {
    std::vector<std::vector<float>> sent;
    CompressionPlan plan;
    for (std::size_t rank = 0; rank < n; ++rank) {
      plan = own[rank]->plan(
          {.step = step, .shares = std::vector<std::uint32_t>(n, samples), .rank = rank});
      std::vector<float> gradient(size);
      for (std::size_t k = 0; k < size; ++k) {
        const double curvature = std::pow(10.0, static_cast<double>(k) / size - 1);
        gradient[k] = static_cast<float>(curvature * (x[k] - centres[rank][k]));
      }
      sent.push_back(encoded(*own[rank], plan, gradient));
    }
    const std::vector<float> sum = reduced(plan, sent);
    for (const auto& one : own) {
      const auto mean = one->decode(plan, sum);
      if (forgets) one->clear();
      if (&one != &own[0]) continue;
      for (std::size_t k = 0; k < size; ++k) x[k] -= rate * static_cast<double>(mean[k]);
    }
  }
  double left = 0;
  double all = 0;
  for (std::size_t k = 0; k < size; ++k) {
    left += std::pow(x[k] - optimum[k], 2);
    all += std::pow(optimum[k], 2);
  }
  return std::sqrt(left / all);
}

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
    if (kind.name == "ternary") continue;  // This kind keeps no error and is right only on average.
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
    CHECK(have_same_bits(encoded(*all.own[0], plan, given), once));
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
    // A peer that returns starts in a new generation.
    GradientSum sum = sum_of(0, 1);
    sum.generation = 8;
    const CompressionPlan plan = original.plan(sum);
    const auto given = learn(plan).given;
    CHECK(have_same_bits(encoded(*restored, plan, given), encoded(original, plan, given)));
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
    CHECK(have_same_bits(encoded(*all.own[0], plan, given), encoded(*make(kind), plan, given)));
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

TEST_CASE("no compressor sends values that are summed and too large for a gradient", "[unit]") {
  for (const CompressorKind& kind : compressor_kinds()) {
    INFO(kind.name);
    const auto compressor = make(kind);
    const CompressionPlan plan = compressor->plan(sum_of(0));
    auto given = learn(plan).given;
    for (float& value : given) value *= 0x1p60F;
    const std::vector<float> sent = encoded(*compressor, plan, given);
    REQUIRE_FALSE(sent.empty());
    const std::size_t gathered = plan.parts.empty() ? 0 : plan.parts.back().end;
    CHECK(largest_magnitude(std::span(sent).subspan(gathered)) <= largest_gradient);
  }
}

TEST_CASE("one bit for each value takes a part of the bytes that grows with the number of peers",
          "[unit]") {
  constexpr std::size_t size = 102400;
  for (const std::size_t n : {2, 4, 8, 28}) {
    INFO(n << " peers");
    const double part = bytes_sent({.one_bit = true}, n, size) / bytes_sent({}, n, size);
    // Each peer sends 18 floats for every 512 values to each of the n - 1 others. Without
    // compression, a ring sends 2 (n - 1) / n floats for each value.
    CHECK(part == Approx(18.0 / 512 * static_cast<double>(n) / 2).epsilon(0.01));
  }
  CHECK(bytes_sent({.one_bit = true}, 29, size) == bytes_sent({}, 29, size));
}

TEST_CASE("with one bit for each value descent comes near the optimum and nearer in smaller steps",
          "[unit]") {
  // At the optimum the errors that peers keep are proportional to the remaining gradients, and
  // their effect on a step is proportional to the learning rate.
  const CompressorOptions bits{.one_bit = true};
  const double whole = distance_after(1500, {}, 0.05);
  const double near = distance_after(1500, bits, 0.05);
  const double nearer = distance_after(6000, bits, 0.0125);
  const double forgetful = distance_after(1500, bits, 0.05, true);
  CHECK(near < whole + 0.03);
  CHECK(nearer < whole + 0.03 / 3);
  CHECK(forgetful > 3 * near);
}

TEST_CASE("ternary values are right in the mean but for what is clipped", "[unit]") {
  constexpr std::size_t size = 600;
  constexpr std::uint64_t sums = 4000;
  std::vector<float> gradient(size, 0.25F);
  gradient[0] = 1;
  gradient[1] = -2;
  gradient[2] = 0;
  // The standard deviation of the first 512 values is 0.269, so -2 and 1 are clipped to 2.5
  // deviations.
  const double largest = 2.5 * std::sqrt((509 * 0.0625 + 1 + 4) / 512);
  const auto own = make_compressor({.ternary = true}, size);
  std::vector<double> mean(size);
  for (std::uint64_t step = 0; step < sums; ++step) {
    const CompressionPlan plan = own->plan({.step = step, .shares = {1, 1}, .rank = 0});
    const std::vector<float> sent = encoded(*own, plan, gradient);
    const std::vector<float> sum = reduced(plan, {sent, sent});
    std::vector<float> both = sum;  // Both peers made the same draws.
    std::ranges::copy(sent.begin(), sent.begin() + sent.size() / 2,
                      both.begin() + static_cast<std::ptrdiff_t>(sent.size() / 2));
    const auto decoded = own->decode(plan, both);
    for (std::size_t i = 0; i < size; ++i) mean[i] += static_cast<double>(decoded[i]) / sums;
  }
  CHECK(mean[0] == Approx(largest).epsilon(1e-5));
  CHECK(mean[1] == Approx(-largest).epsilon(1e-5));
  CHECK(mean[2] == 0);
  // The margin is six standard deviations of the mean of 4000 values that are 0 or 0.673.
  for (std::size_t i = 3; i < 512; ++i) REQUIRE(mean[i] == Approx(0.25).margin(0.031));
  // If all values are equal, nothing is random.
  for (std::size_t i = 512; i < size; ++i) REQUIRE(mean[i] == Approx(0.25).epsilon(1e-5));
}

TEST_CASE("ternary values take two bits each and a scale, from every peer to all", "[unit]") {
  constexpr std::size_t size = 102400;
  for (const std::size_t n : {2, 8, 15}) {
    INFO(n << " peers");
    const double part = bytes_sent({.ternary = true}, n, size) / bytes_sent({}, n, size);
    CHECK(part == Approx(33.0 / 512 * static_cast<double>(n) / 2).epsilon(0.01));
  }
  CHECK(bytes_sent({.ternary = true}, 16, size) == bytes_sent({}, 16, size));
}

TEST_CASE("descent with ternary values comes near the optimum and nearer in smaller steps",
          "[unit]") {
  const CompressorOptions ternary{.ternary = true};
  const double whole = distance_after(1500, {}, 0.05);
  const double near = distance_after(1500, ternary, 0.05);
  const double nearer = distance_after(6000, ternary, 0.0125);
  // The noise of a step is proportional to the learning rate. Its lasting effect is proportional to
  // the square root of that rate.
  CHECK(near < whole + 0.15);
  CHECK(nearer < whole + 0.15 / 1.8);
}

TEST_CASE("all peers draw the same values of a step and others in the next", "[unit]") {
  constexpr std::size_t size = 1300;
  std::vector<float> gradient(size, 1);
  std::vector<std::size_t> times(size);
  constexpr std::uint64_t steps = 3000;
  std::vector<float> first;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const auto own = make_compressor({.random_k_per_512 = 64}, size);
    const CompressionPlan plan = own->plan({.step = step, .shares = {1, 1}, .rank = step % 2});
    REQUIRE(plan.elements == 64 + 64 + 35);  // An eighth of each block; the last has 276.
    const auto decoded = own->decode(plan, encoded(*own, plan, gradient));
    if (step == 0) first.assign(decoded.begin(), decoded.end());
    if (step == 1) CHECK_FALSE(std::ranges::equal(decoded, first));
    for (std::size_t i = 0; i < size; ++i) times[i] += decoded[i] == 1.0F ? 1 : 0;
  }
  // The margin is seven standard deviations of the number of times that each value is chosen.
  for (std::size_t i = 0; i < size; ++i) {
    REQUIRE(static_cast<double>(times[i]) == Approx(steps / 8.0).margin(130));
  }
}

TEST_CASE("descent with drawn values is stable up to the bound of error feedback", "[unit]") {
  // Curvatures are at most 1. So if a share delta of the values is sent, the mean square falls for
  // rates below 2 delta / (2 - delta). Just above this bound, the only values that grow are those
  // that happen to wait unusually long, and few runs contain any.
  const CompressorOptions eighth{.random_k_per_512 = 64};
  constexpr double bound = 2 * 0.125 / (2 - 0.125);
  CHECK(distance_after(1500, eighth, 0.75 * bound) < 0.1);
  CHECK(distance_after(150, eighth, 6 * bound) > 10);
}

TEST_CASE("compressors that clash are told apart with a remedy", "[unit]") {
  const CompressorOptions both{.top_k_per_512 = 8, .rank = 2};
  REQUIRE(problems_of(both, false).size() == 1);
  CHECK(problems_of(both, false)[0].place == "rank");
  const CompressorOptions coded{.codec = Codec::fp16, .sufficient_factors = true};
  REQUIRE(problems_of(coded, true).size() == 2);
  CHECK(problems_of(coded, true)[1].remedy.find("period = 1") != std::string::npos);
  CHECK(problems_of({.codec = Codec::fp16, .rank = 2}, true).empty());
  CHECK(problems_of({.codec = Codec::fp16, .random_k_per_512 = 8}, true).empty());
  CHECK(problems_of({.top_k_per_512 = 8, .random_k_per_512 = 8}, false).size() == 1);
  CHECK(problems_of({.codec = Codec::fp16, .ternary = true}, false).size() == 1);
}

// The fingerprints were recorded on x86. With error feedback, any difference in the last place
// carries over into later steps.
TEST_CASE("sums of compressed gradients have the same bits on every machine", "[unit]") {
  const std::map<std::string_view, std::uint64_t> recorded = {
      {"whole", 0xd0ae7df60432dbef},     {"top_k", 0x9c1e6696e3428543},
      {"power_sgd", 0x4b263ba1f7125125}, {"sufficient_factors", 0xe6ae93c1629d750e},
      {"one_bit", 0x375571a7f778b5a5},   {"random_k", 0xfeef440af92dd42d},
      {"ternary", 0x5872798092e117f9},
  };
  for (const CompressorKind& kind : compressor_kinds()) {
    Peers swarm(kind);
    for (std::uint64_t step = 0; step < 20; ++step) swarm.step(step);
    INFO("compressor " << kind.name);
    CHECK(fingerprint(swarm.taken) == recorded.at(kind.name));
  }
}

}  // namespace gv
