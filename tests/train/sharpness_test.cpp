// Sharpness by power iteration, compared with quadratics and a logistic loss of known Hessians.
#include "train/sharpness.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <vector>

#include "train/data/generated.hpp"
#include "train/evaluation.hpp"

namespace gv {
namespace {

/// The gradient of x' A x / 2 in `n` dimensions.
GradientAt quadratic(std::vector<double> a, std::size_t n) {
  return [a = std::move(a), n](std::span<const float> x, std::span<float> gradient) {
    for (std::size_t i = 0; i < n; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < n; ++j) sum += a[i * n + j] * static_cast<double>(x[j]);
      gradient[i] = static_cast<float>(sum);
    }
  };
}

}  // namespace

TEST_CASE("the sharpness of a quadratic is its largest eigenvalue", "[unit]") {
  const std::vector<float> x{0.3F, -0.2F};
  const auto found = sharpness(quadratic({4, 1, 1, 3}, 2), x, Rng(3), {.tolerance = 1e-4});
  REQUIRE(found);
  // The eigenvalue is (7 + sqrt 5) / 2. The error of the quotient is the square of the vector's
  // error. The gradients' rounding to float, divided by the width of 0.005, adds some 1e-5.
  CHECK(found->eigenvalue == Approx(4.618034).epsilon(1e-3));
  CHECK(found->has_settled);
  CHECK(found->iterations <= 20);
  // The residual bounds the distance to an eigenvalue.
  CHECK(std::abs(found->eigenvalue - 4.618034) <= found->residual + 1e-3);
}

TEST_CASE("the sharpness at a peak is negative, and its magnitude counts", "[unit]") {
  const std::vector<float> x(3, 1.0F);
  const auto found = sharpness(quadratic({-9, 0, 0, 0, 2, 0, 0, 0, 1}, 3), x, Rng(5));
  REQUIRE(found);
  CHECK(found->eigenvalue == Approx(-9).epsilon(0.01));
}

TEST_CASE("the sharpness of a logistic loss is the largest eigenvalue of its Hessian", "[unit]") {
  // Eight points with their labels, and weights (0.5, -0.25). The Hessian is the mean of s (1 - s)
  // x x', where s is the logistic function of w x.
  const double points[8][3] = {{2, 1, 1},    {1, 2, 1},    {2, 2, 1},       {.5, .5, 1},
                               {-1, -2, -1}, {-2, -1, -1}, {-1.5, -.5, -1}, {.25, -.5, -1}};
  const GradientAt gradient = [&](std::span<const float> w, std::span<float> out) {
    double sum[2] = {0, 0};
    for (const auto& p : points) {
      const double margin =
          p[2] * (p[0] * static_cast<double>(w[0]) + p[1] * static_cast<double>(w[1]));
      const double pull = -p[2] / (1 + std::exp(margin));
      sum[0] += pull * p[0] / 8;
      sum[1] += pull * p[1] / 8;
    }
    out[0] = static_cast<float>(sum[0]);
    out[1] = static_cast<float>(sum[1]);
  };
  const std::vector<float> w{0.5F, -0.25F};
  const auto found = sharpness(gradient, w, Rng(1), {.tolerance = 1e-3});
  REQUIRE(found);
  // The truncation error grows with the square of the width (0.005). The rounding error is 1e-7
  // divided by the width.
  CHECK(found->eigenvalue == Approx(0.8349245986).epsilon(1e-3));
}

TEST_CASE("a gradient that is not finite has no sharpness", "[unit]") {
  const std::vector<float> x(2, 1.0F);
  const GradientAt broken = [](std::span<const float>, std::span<float> gradient) {
    std::ranges::fill(gradient, NAN);
  };
  CHECK_FALSE(sharpness(broken, x, Rng(1)));
}

TEST_CASE("the gradient for the sharpness is that of the mean over unequal batches", "[unit]") {
  DataSet data;
  data.shape = {2, 1, 1};
  data.target_width = 1;
  // There are more samples than fit in one batch, and their number is not a multiple of the batch
  // size.
  const std::size_t samples = evaluation_batch(data) + 3;
  for (std::size_t i = 0; i < samples; ++i) {
    data.floats.push_back(static_cast<float>(i % 7) / 8);
    data.floats.push_back(static_cast<float>(i % 5) / 4);
    data.targets.push_back(static_cast<float>(i % 3));
  }
  ModelSpec spec = linear(1);
  spec.layers.push_back({.kind = LayerKind::dropout, .rate = 0.5});
  spec.loss = LossKind::squared;
  Model model(without_dropout(spec), data.shape, evaluation_batch(data));
  const std::vector<float> x{0.5F, -1, 0.25F};
  std::vector<float> gradient(3);
  gradient_on(model, data, samples)(x, gradient);
  double wanted[3] = {0, 0, 0};
  for (std::size_t i = 0; i < samples; ++i) {
    const double a = data.floats[2 * i];
    const double b = data.floats[2 * i + 1];
    const double error = 0.5 * a - b + 0.25 - static_cast<double>(data.targets[i]);
    wanted[0] += error * a / static_cast<double>(samples);
    wanted[1] += error * b / static_cast<double>(samples);
    wanted[2] += error / static_cast<double>(samples);
  }
  // These are sums of some hundred floats.
  for (std::size_t i = 0; i < 3; ++i) CHECK(gradient[i] == Approx(wanted[i]).epsilon(1e-4));
}

TEST_CASE("running statistics are no part of the curvature", "[unit]") {
  ModelSpec spec;
  spec.layers = {{.kind = LayerKind::dense, .units = 4},
                 {.kind = LayerKind::batch_norm},
                 {.kind = LayerKind::dense, .units = 3}};
  const DataSet data = generate_blobs({.samples = 50, .features = 2, .classes = 3}, 0);
  Model model(spec, data.shape, 50);
  std::vector<float> x(model.layout().size());
  model.initialise(x, Rng(3));
  std::vector<float> gradient(x.size(), 1);
  gradient_on(model, data, 50)(x, gradient);
  const std::vector<Range> statistics = model.statistics();
  REQUIRE(statistics.size() == 1);
  for (std::size_t i = statistics[0].begin; i < statistics[0].end; ++i) CHECK(gradient[i] == 0);
  CHECK(std::ranges::any_of(gradient, [](float value) { return value != 0; }));
}

}  // namespace gv
