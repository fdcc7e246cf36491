// The steps at which collectives begin, and the effect of an outer step compared with closed forms.
#include "consensus/compression/outer_step.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "base/magnitude.hpp"

namespace gv {
namespace {

/// The steps at which collectives begin.
std::vector<std::uint64_t> beginnings(const LocalSteps& local, std::uint64_t budget) {
  std::vector<std::uint64_t> steps;
  for (std::uint64_t step = 0; step < budget; step += local.steps_at(step, budget)) {
    steps.push_back(step);
  }
  return steps;
}

}  // namespace

TEST_CASE("an operation is a step until local steps begin and then a period within the budget",
          "[unit]") {
  CHECK(beginnings({}, 4) == std::vector<std::uint64_t>{0, 1, 2, 3});
  CHECK(beginnings({.period = 4}, 12) == std::vector<std::uint64_t>{0, 4, 8});
  const LocalSteps later{.period = 4, .local_after = 3};
  CHECK(beginnings(later, 13) == std::vector<std::uint64_t>{0, 1, 2, 3, 7, 11});
  CHECK(later.steps_at(11, 13) == 2);
  CHECK(later.steps_at(2, 13) == 1);
  CHECK_FALSE(later.is_local(2));
  CHECK(later.is_local(3));
  // A peer that resumes between two collectives of this config makes the steps up to the next one.
  CHECK(later.steps_at(5, 13) == 4);
  // With a period of 1 gradients are summed, whatever the other settings are.
  CHECK_FALSE(LocalSteps{.period = 1, .outer = OuterKind::nesterov}.is_local(5));
  CHECK_FALSE(LocalSteps{.period = 1, .outer = OuterKind::nesterov}.has_momentum());
}

TEST_CASE("the average goes to the mean of the models", "[unit]") {
  OuterStep outer({.period = 8}, 2);
  std::vector<float> x = {1, 2};
  outer.step(x, std::vector<float>{0.5F, -0.25F});
  CHECK(x == std::vector<float>{0.5F, 2.25F});
  CHECK(outer.momentum().empty());
}

TEST_CASE("the outer step of Nesterov with a constant change is the geometric series", "[unit]") {
  const double mu = 0.9;
  const double rate = 0.7;
  OuterStep outer({.period = 8, .outer = OuterKind::nesterov}, 1);
  std::vector<float> x = {0};
  double expected = 0;
  double power = 1;  // mu^k
  for (int k = 1; k <= 40; ++k) {
    power *= mu;
    outer.step(x, std::vector<float>{1});
    const double v = (1 - power) / (1 - mu);
    expected -= rate * (1 + mu * v);
    // Allows for 40 additions of numbers below 7 in single precision.
    CHECK(x[0] == Approx(expected).epsilon(1e-5));
    CHECK(outer.momentum()[0] == Approx(v).epsilon(1e-5));
  }
}

TEST_CASE("only a momentum to which mean changes can lead is possible", "[unit]") {
  OuterStep outer({.period = 8, .outer = OuterKind::nesterov, .outer_momentum = 0.9}, 2);
  std::vector<float> x = {0, 0};
  for (int k = 0; k < 500; ++k) {
    outer.step(x, std::vector<float>{4 * largest_gradient, -4 * largest_gradient});
    REQUIRE(outer.is_possible(outer.momentum()));
  }
  // With this momentum a later step would not be finite.
  CHECK_FALSE(outer.is_possible(std::vector<float>{0, 3e38F}));
  CHECK_FALSE(outer.is_possible(std::vector<float>{-50 * largest_gradient, 0}));
  CHECK_FALSE(outer.is_possible(std::vector<float>{std::nanf(""), 0}));
  CHECK(OuterStep({}, 2).is_possible({}));
}

TEST_CASE("a peer that takes over the outer momentum goes on alike", "[unit]") {
  const LocalSteps local{.period = 8, .outer = OuterKind::nesterov};
  OuterStep first(local, 2);
  std::vector<float> x = {1, 2};
  first.step(x, std::vector<float>{0.3F, -0.1F});
  OuterStep second(local, 2);
  second.adopt(first.momentum());
  std::vector<float> y = x;
  first.step(x, std::vector<float>{0.2F, 0.7F});
  second.step(y, std::vector<float>{0.2F, 0.7F});
  CHECK(x == y);
}

}  // namespace gv
