// The learning rate follows its closed forms: warm-up, scaling rule, steps and cosine.
#include "train/schedule.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>

namespace gv {
namespace {

// A few double operations, each rounded once, have an error far below 1e-12 of the value.
Approx near(double value) { return Approx(value).epsilon(1e-12).margin(1e-15); }

}  // namespace

TEST_CASE("a constant schedule stays where it is", "[unit]") {
  const ScheduleSpec spec{.learning_rate = 0.02, .step_at = {}};
  for (const std::uint64_t step : {0, 1, 99, 100, 1000000}) {
    CHECK(learning_rate(spec, 32, step, 100) == near(0.02));
  }
}

TEST_CASE("warm-up is a straight line that meets the rate at its last step", "[unit]") {
  const ScheduleSpec spec{.learning_rate = 0.4, .warmup_steps = 8, .step_at = {}};
  for (std::uint64_t step = 0; step < 8; ++step) {
    CHECK(learning_rate(spec, 1, step, 100) == near(0.4 * static_cast<double>(step + 1) / 8));
  }
  CHECK(learning_rate(spec, 1, 7, 100) == near(0.4));
  CHECK(learning_rate(spec, 1, 8, 100) == near(0.4));
}

TEST_CASE("the linear scaling rule multiplies every kind of schedule", "[unit]") {
  for (const ScheduleKind kind :
       {ScheduleKind::constant, ScheduleKind::step, ScheduleKind::cosine}) {
    ScheduleSpec plain{.kind = kind, .learning_rate = 0.1, .warmup_steps = 3, .step_at = {10}};
    ScheduleSpec scaled = plain;
    scaled.reference_batch = 256;
    for (const std::uint64_t step : {0, 2, 3, 9, 10, 19}) {
      const double rate = learning_rate(plain, 1024, step, 20);
      CHECK(learning_rate(scaled, 1024, step, 20) == near(4 * rate));
      CHECK(learning_rate(scaled, 64, step, 20) == near(rate / 4));
    }
  }
}

TEST_CASE("a step schedule falls by its factor at each named step and keeps warm-up", "[unit]") {
  const ScheduleSpec spec{.kind = ScheduleKind::step,
                          .learning_rate = 1,
                          .warmup_steps = 2,
                          .step_at = {10, 20},
                          .step_factor = 0.5};
  CHECK(learning_rate(spec, 1, 0, 30) == near(0.5));
  CHECK(learning_rate(spec, 1, 9, 30) == near(1));
  CHECK(learning_rate(spec, 1, 10, 30) == near(0.5));
  CHECK(learning_rate(spec, 1, 19, 30) == near(0.5));
  CHECK(learning_rate(spec, 1, 20, 30) == near(0.25));
}

TEST_CASE("where the batch grows the rate stays and falls at the steps that the batch leaves",
          "[unit]") {
  const ScheduleSpec spec{.kind = ScheduleKind::growing_batch,
                          .learning_rate = 1,
                          .step_at = {10, 20, 30, 40},
                          .batch_factor = 5,
                          .batch_growths = 2};
  CHECK(learning_rate(spec, 1, 29, 50) == near(1));
  CHECK(learning_rate(spec, 1, 30, 50) == near(0.2));
  CHECK(learning_rate(spec, 1, 40, 50) == near(0.04));
}

TEST_CASE("a cosine falls from the end of warm-up to its final fraction", "[unit]") {
  const ScheduleSpec spec{.kind = ScheduleKind::cosine,
                          .learning_rate = 2,
                          .warmup_steps = 10,
                          .step_at = {},
                          .final_fraction = 0.1};
  constexpr std::uint64_t total = 111;  // 100 intervals from the end of warm-up to the last step.
  CHECK(learning_rate(spec, 1, 10, total) == near(2));
  CHECK(learning_rate(spec, 1, 60, total) == near(2 * 0.55));
  CHECK(learning_rate(spec, 1, 110, total) == near(0.2));
  for (std::uint64_t step = 10; step < total; ++step) {
    const double phase = std::numbers::pi * static_cast<double>(step - 10) / 100;
    CHECK(learning_rate(spec, 1, step, total) == near(2 * (0.1 + 0.9 * (1 + std::cos(phase)) / 2)));
  }
  // Beyond the planned end of a run, the rate stays at its final value and does not rise again.
  CHECK(learning_rate(spec, 1, 200, total) == near(0.2));
}

TEST_CASE("the rate of a slow peer in warm-up falls with the progress of its swarm", "[unit]") {
  ScheduleSpec spec{.kind = ScheduleKind::cosine,
                    .learning_rate = 2,
                    .warmup_steps = 10,
                    .step_at = {40, 80},
                    .step_factor = 0.5,
                    .final_fraction = 0.1};
  // The peer has made 5 steps of warm-up when the swarm is at the middle of the cosine, and 9 when
  // the swarm is at the end.
  CHECK(learning_rate_at(spec, 1, 4, 60, 111) == near(2 * 0.5 * 0.55));
  CHECK(learning_rate_at(spec, 1, 8, 110, 111) == near(2 * 0.9 * 0.1));
  spec.kind = ScheduleKind::step;
  CHECK(learning_rate_at(spec, 1, 4, 60, 111) == near(2 * 0.5 * 0.5));
  CHECK(learning_rate_at(spec, 1, 8, 110, 111) == near(2 * 0.9 * 0.25));
}

TEST_CASE("a cosine over hardly any steps divides by nothing", "[unit]") {
  for (const std::uint64_t total : {0, 1, 2, 5, 6}) {
    const ScheduleSpec spec{
        .kind = ScheduleKind::cosine, .learning_rate = 1, .warmup_steps = 5, .step_at = {}};
    for (std::uint64_t step = 0; step < 8; ++step) {
      const double rate = learning_rate(spec, 1, step, total);
      CHECK(std::isfinite(rate));
      CHECK(rate >= 0);
      CHECK(rate <= 1);
    }
  }
}

}  // namespace gv
