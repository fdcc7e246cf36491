// The gradient noise scale, compared with a closed form and with gradients drawn from a known
// covariance.
#include "peer/modes/noise_scale.hpp"

#include <catch2/catch.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "base/rng.hpp"
#include "peer/node/whole_replica.hpp"
#include "train/built_in_learner.hpp"
#include "train/data/generated.hpp"

namespace gv {

TEST_CASE("the noise scale solves the two equations of two batch sizes", "[unit]") {
  NoiseScale noise;
  CHECK_FALSE(noise.samples());
  // Eight peers with 32 samples each: |g_i|^2 = |G|^2 + 32/32 = 1.25 and |g|^2 = 0.25 + 32/256.
  for (int step = 0; step < 12; ++step) {
    noise.add({.own = 1.25, .mean = 0.375, .own_samples = 32, .samples = 256});
  }
  CHECK(noise.variance() == Approx(32));
  CHECK(noise.square() == Approx(0.25));
  REQUIRE(noise.samples());
  CHECK(*noise.samples() == Approx(128));
}

TEST_CASE("the noise scale of drawn gradients is near that of their covariance", "[unit]") {
  constexpr std::size_t size = 50;
  constexpr std::size_t own_samples = 4;
  constexpr std::size_t samples = 16;
  NoiseScale noise;
  Rng rng(3);
  for (int step = 0; step < 400; ++step) {
    double own_square = 0;
    double mean_square = 0;
    for (std::size_t i = 0; i < size; ++i) {
      double own = 0;
      double all = 0;
      for (std::size_t sample = 0; sample < samples; ++sample) {
        const double value = 0.1 + rng.normal();
        if (sample < own_samples) own += value / own_samples;
        all += value / samples;
      }
      own_square += own * own;
      mean_square += all * all;
    }
    noise.add(
        {.own = own_square, .mean = mean_square, .own_samples = own_samples, .samples = samples});
  }
  // tr S = 50 and |G|^2 = 0.5. The estimate averages about fifty steps. A single step has a
  // standard deviation of 50 sqrt(2/50) 4/3.5 in tr S and of about 1 in |G|^2, so the mean of fifty
  // steps has standard deviations of 1.6 and 0.14. The margins are three times as large.
  CHECK(noise.variance() == Approx(50).margin(5));
  CHECK(noise.square() == Approx(0.5).margin(0.45));
}

TEST_CASE("a peer alone and the first steps have no noise scale, and noise alone has none",
          "[unit]") {
  NoiseScale alone;
  for (int step = 0; step < 20; ++step) {
    alone.add({.own = 1, .mean = 1, .own_samples = 32, .samples = 32});
  }
  CHECK_FALSE(alone.samples());
  ModeReport empty;
  alone.add_to(empty);
  CHECK(empty.sections.empty());

  NoiseScale early;
  early.add({.own = 1.25, .mean = 0.375, .own_samples = 32, .samples = 256});
  CHECK_FALSE(early.samples());

  NoiseScale hidden;
  for (int step = 0; step < 20; ++step) {
    hidden.add({.own = 1, .mean = 0.1, .own_samples = 32, .samples = 256});
  }
  CHECK_FALSE(hidden.samples());
  ModeReport report;
  hidden.add_to(report);
  REQUIRE(report.details.size() == 1);
  CHECK(report.details[0].find("not known") != std::string::npos);
}

TEST_CASE("a replica measures the lengths of its own gradient and of the mean", "[unit]") {
  const auto data = std::make_shared<const DataSet>(
      generate_blobs({.samples = 64, .features = 4, .classes = 3, .noise = 1, .seed = 1}, 0));
  WholeReplica replica(
      built_in_learner({.model = mlp({8}, 3), .batch = 8, .steps = 10, .seed = 2}, data), 0);
  const std::size_t size = replica.learner().layout().size();
  const auto own = std::make_shared<Floats>(size);
  const auto mean = std::make_shared<Floats>(size, 0.5F);
  for (const bool measures : {true, false}) {
    const task::ComputeGradient compute{.samples = 8, .measures_square = measures, .values = own};
    replica.run({.tasks = {compute}});
    const task::ApplyUpdate apply{.values = mean, .samples = 32};
    const JobDone done = replica.run({.tasks = {apply}});
    const auto* squares = first_of<result::GradientSquares>(done.results);
    REQUIRE((squares != nullptr) == measures);
    if (squares == nullptr) continue;
    double square = 0;
    for (const float value : *own) {
      square += static_cast<double>(value) * static_cast<double>(value);
    }
    CHECK(squares->own == Approx(square).epsilon(1e-5));
    CHECK(squares->mean == Approx(0.25 * static_cast<double>(size)).epsilon(1e-5));
    CHECK(squares->own_samples == 8);
    CHECK(squares->samples == 32);
    // A mean yields one estimate. The second update has no gradient of ours, so it yields none.
    const JobDone again = replica.run({.tasks = {apply}});
    CHECK(first_of<result::GradientSquares>(again.results) == nullptr);
  }
}

}  // namespace gv
