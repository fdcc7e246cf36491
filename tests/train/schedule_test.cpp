// The learning rate follows its closed forms: warm-up, scaling rule, steps and cosine.
#include "train/schedule.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>

#include "train/learner/batch_growth.hpp"

namespace gv {
namespace {

// A few double operations, each rounded once: far below 1e-12 of the value.
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

TEST_CASE("a batch that grows makes the updates of Smith's first experiment", "[unit]") {
  // 50,000 samples in batches of 128, a factor of 5 after 60, 120 and 160 of 200 epochs: 78,000
  // updates if the rate falls, 28,800 if the batch grows (Smith 2018 says 80,000 and 29,000).
  constexpr std::uint64_t epoch = 50000;
  const BatchGrowth growth{.at = {60 * epoch, 120 * epoch, 160 * epoch}, .factor = 5};
  std::uint64_t updates = 0;
  for (std::uint64_t samples = 0; samples < 200 * epoch; ++updates) {
    samples += 128 * growth.after(samples);
  }
  // 60 and 60 / 5 and 40 / 25 and 40 / 125 epochs of 390.6 updates.
  CHECK(updates == 28876);
  CHECK(growth.most() == 125);
  CHECK(BatchGrowth{}.after(epoch) == 1);
}

TEST_CASE("a cosine falls from the end of warm-up to its final fraction", "[unit]") {
  const ScheduleSpec spec{.kind = ScheduleKind::cosine,
                          .learning_rate = 2,
                          .warmup_steps = 10,
                          .step_at = {},
                          .final_fraction = 0.1};
  constexpr std::uint64_t total = 111;  // 100 intervals between the first and the last step.
  CHECK(learning_rate(spec, 1, 10, total) == near(2));
  CHECK(learning_rate(spec, 1, 60, total) == near(2 * 0.55));
  CHECK(learning_rate(spec, 1, 110, total) == near(0.2));
  for (std::uint64_t step = 10; step < total; ++step) {
    const double phase = std::numbers::pi * static_cast<double>(step - 10) / 100;
    CHECK(learning_rate(spec, 1, step, total) == near(2 * (0.1 + 0.9 * (1 + std::cos(phase)) / 2)));
  }
  // A run that continues beyond its plan stays at the final rate and does not rise again.
  CHECK(learning_rate(spec, 1, 200, total) == near(0.2));
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
