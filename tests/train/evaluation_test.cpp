// R2 of models with known errors, compared with its formula worked out by hand.
#include "train/evaluation.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

namespace gv {
namespace {

/// Samples of one number x with the two targets f(x) and 5.
DataSet line(const std::vector<float>& targets) {
  DataSet data{.shape = {1, 1, 1}, .target_width = 2};
  for (std::size_t i = 0; i < targets.size(); ++i) {
    data.floats.push_back(static_cast<float>(i));
    data.targets.insert(data.targets.end(), {targets[i], 5});
  }
  return data;
}

/// R2 of the outputs (slope x + offset, 5).
double r2_of(float slope, float offset, const DataSet& data) {
  ModelSpec spec = linear(2);
  spec.loss = LossKind::squared;
  Model model(spec, data.shape, evaluation_batch(data));
  const std::vector<float> parameters = {slope, 0, offset, 5};
  const Merit merit = merit_of(evaluate(model, parameters, data), data);
  CHECK(merit.name == "r2");
  return merit.value;
}

}  // namespace

TEST_CASE("R2 is one minus the squared errors over the squared distances from the means",
          "[unit]") {
  // The errors are 0, 0, 0 and 1. The mean is 4.25, and the squared distances add up to 26.75. The
  // second target does not vary and is predicted exactly, so it adds nothing.
  const DataSet data = line({1, 3, 5, 8});
  CHECK(r2_of(2, 1, data) == Approx(1 - 1 / 26.75).epsilon(1e-12));
  // A model that predicts the means has R2 = 0, and a worse model has a lower R2.
  CHECK(r2_of(0, 4.25F, data) == Approx(0).margin(1e-12));
  CHECK(r2_of(0, 8, data) == Approx(1 - (49 + 25 + 9) / 26.75).epsilon(1e-12));
}

TEST_CASE("R2 of the least-squares line is the squared correlation", "[unit]") {
  // x = 0, 1, 2, 3: Sxx = 5, Sxy = 11.5, so the slope is 2.3 and the offset 4.25 - 1.5 * 2.3 = 0.8.
  // The parameters are floats, which limits the relative accuracy to about 1e-7.
  CHECK(r2_of(2.3F, 0.8F, line({1, 3, 5, 8})) == Approx(11.5 * 11.5 / (5 * 26.75)).epsilon(1e-6));
}

TEST_CASE("R2 covers more samples than one batch", "[unit]") {
  // n = 1000 targets x with outputs x + 1/2 have R2 = 1 - (n / 4) / (n (n^2 - 1) / 12).
  std::vector<float> targets(1000);
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<float>(i);
  CHECK(r2_of(1, 0.5F, line(targets)) == Approx(1 - 3.0 / (1000.0 * 1000.0 - 1)).epsilon(1e-12));
}

TEST_CASE("R2 without variance or with values that are not finite is defined", "[unit]") {
  const DataSet flat = line({2, 2, 2});
  CHECK(r2_of(0, 2, flat) == 1);
  CHECK(r2_of(0, 3, flat) == 0);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(r2_of(nan, 0, line({1, 2})) == -std::numeric_limits<double>::infinity());
}

TEST_CASE("the merit of data with labels is the accuracy", "[unit]") {
  DataSet data{.shape = {1, 1, 1}, .classes = 2};
  data.floats = {-1, 1, 1, 1};
  data.labels = {0, 1, 1, 0};
  Model model(linear(2), data.shape, evaluation_batch(data));
  const std::vector<float> parameters = {-1, 1, 0, 0};
  const Merit merit = merit_of(evaluate(model, parameters, data), data);
  CHECK(merit.name == "accuracy");
  CHECK(merit.value == 0.75);
}

TEST_CASE("large samples are evaluated a few at a time", "[unit]") {
  const auto batch = [](std::size_t channels, std::size_t side) {
    DataSet data;
    data.shape = {channels, side, side};
    return evaluation_batch(data);
  };
  CHECK(batch(1, 28) == 256);
  CHECK(batch(3, 32) == 256);
  CHECK(batch(1, 512) == 4);
  CHECK(batch(3, 4096) == 1);
}

}  // namespace gv
