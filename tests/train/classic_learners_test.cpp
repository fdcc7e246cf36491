// Classic learners: hinge loss, logistic and linear regression, compared with known numbers.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "train/data/generated.hpp"
#include "train/evaluation.hpp"
#include "train/layers/loss.hpp"
#include "train/model.hpp"

namespace gv {
namespace {

using Point = std::array<double, 2>;

const std::vector<Point> points = {{2, 1},   {1, 2},   {2, 2},       {0.5, 0.5},
                                   {-1, -2}, {-2, -1}, {-1.5, -0.5}, {0.25, -0.5}};
/// The first four points are of one class, the last four of the other.
const std::vector<std::int32_t> labels = {1, 1, 1, 1, 0, 0, 0, 0};
constexpr double decay = 0.1;

using Loss = std::function<LossSum(std::span<const double>, std::span<double>)>;

/// Returns the mean loss of weights w, plus decay / 2 |w|^2. The two outputs for a point x are -w x
/// / 2 and w x / 2, which differ by w x. Also computes the gradient.
double loss_of(const Point& w, const Loss& loss, Point* gradient = nullptr) {
  std::vector<double> outputs;
  for (const Point& x : points) {
    const double y = w[0] * x[0] + w[1] * x[1];
    outputs.insert(outputs.end(), {-y / 2, y / 2});
  }
  std::vector<double> d(outputs.size());
  const double sum = loss(outputs, d).loss;
  if (gradient) {
    *gradient = {decay * w[0], decay * w[1]};
    for (std::size_t n = 0; n < points.size(); ++n) {
      for (std::size_t k = 0; k < 2; ++k) {
        (*gradient)[k] += (d[2 * n + 1] - d[2 * n]) / 2 * points[n][k];
      }
    }
  }
  return sum / static_cast<double>(points.size()) + decay / 2 * (w[0] * w[0] + w[1] * w[1]);
}

LossSum hinge(std::span<const double> outputs, std::span<double> d) {
  return hinge_loss<double>(outputs, labels, 2, d);
}

LossSum logistic(std::span<const double> outputs, std::span<double> d) {
  return cross_entropy<double>(outputs, labels, 2, d);
}

}  // namespace

TEST_CASE("hinge loss is what a margin lacks of one and moves the label and its best rival") {
  // Margins of 2, 1, 0.5 and -3, and then one with two equal rivals.
  const std::vector<double> outputs = {3, 1, 0, 0, 1, -5, 1, 0.5, -1, 0, 1, 3, 2, 2, 0};
  const std::vector<std::int32_t> wanted = {0, 1, 0, 0, 2};
  std::vector<double> d(outputs.size(), 9);
  const LossSum sum = hinge_loss<double>(outputs, wanted, 3, d);
  CHECK(sum.loss == Approx(0 + 0 + 0.5 + 4 + 3));
  CHECK(sum.correct == 3);
  CHECK(d == std::vector<double>{0, 0, 0, 0, 0, 0, -0.2, 0.2, 0, -0.2, 0, 0.2, 0.2, 0, -0.2});
  std::vector<double> bad = outputs;
  bad[4] = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(hinge_loss<double>(bad, wanted, 3, {}).loss));
}

TEST_CASE("descent on hinge loss is Pegasos and comes to the support vector machine") {
  // Step t of Pegasos (Shalev-Shwartz 2007) takes a full batch with the learning rate 1 / (decay
  // t).
  Point w{};
  Point gradient{};
  const std::vector<Point> first = {{12.1875, 11.875}, {6.09375, 5.9375}};
  double least = std::numeric_limits<double>::infinity();
  for (int t = 1; t <= 20000; ++t) {
    loss_of(w, hinge, &gradient);
    for (std::size_t k = 0; k < 2; ++k) w[k] -= gradient[k] / (decay * t);
    for (std::size_t k = 0; k < 2 && t <= 2; ++k) {
      CHECK(w[k] == Approx(first[static_cast<std::size_t>(t) - 1][k]).epsilon(1e-12));
    }
    least = std::min(least, loss_of(w, hinge));
  }
  // The minimum is also the maximum of the dual problem.
  constexpr double minimum = 0.1669921875;
  CHECK(loss_of({0.3125, 1.25}, hinge) == Approx(minimum).epsilon(1e-12));
  CHECK(least >= minimum - 1e-12);
  CHECK(least == Approx(minimum).epsilon(1e-3));
  // The mean of the machines of two shards is not the machine of all points.
  CHECK(loss_of({0.3125, 1.25}, hinge) < 0.16865234375);
}

TEST_CASE("descent on cross-entropy of two classes is logistic regression") {
  Point w{};
  Point gradient{};
  for (int t = 0; t < 3000; ++t) {
    loss_of(w, logistic, &gradient);
    for (std::size_t k = 0; k < 2; ++k) w[k] -= gradient[k];
  }
  CHECK(w[0] == Approx(0.8323735068).epsilon(1e-9));
  CHECK(w[1] == Approx(1.0211627605).epsilon(1e-9));
  CHECK(loss_of(w, logistic) == Approx(0.2507291910).epsilon(1e-9));
}

TEST_CASE("generated targets are linear and the best model has the R2 that their noise leaves") {
  const GeneratedSpec spec{.samples = 20000, .features = 5, .targets = 2, .noise = 0.5, .seed = 3};
  const DataSet data = generate_linear(spec, 0);
  const DataSet test = generate_linear(spec, 1);
  REQUIRE(data.size() == 20000);
  ModelSpec linear_model = linear(2);
  linear_model.loss = LossKind::squared;
  constexpr std::size_t batch = 200;
  Model model(linear_model, data.shape, batch);
  std::vector<float> parameters(model.layout().size());
  std::vector<float> gradient(parameters.size());
  Rng rng(1);
  model.initialise(parameters, rng);
  for (std::size_t step = 0; step < 300; ++step) {
    const std::size_t at = step * batch % data.size();
    const Batch samples{.inputs = std::span(data.floats).subspan(at * 5, batch * 5),
                        .labels = {},
                        .targets = std::span(data.targets).subspan(at * 2, batch * 2),
                        .size = batch};
    model.gradient(parameters, samples, gradient, rng);
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= 0.1F * gradient[i];
  }
  Model by(linear_model, data.shape, evaluation_batch(test));
  const double r2 = determination(evaluate(by, parameters, test), test);
  CHECK(r2 == Approx(1 / (1 + 0.25)).margin(0.02));
}

}  // namespace gv
