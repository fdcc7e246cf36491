// Batch norm: known numbers, finite differences, and statistics that several peers share.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <vector>

#include "base/magnitude.hpp"
#include "tests/train/drawn.hpp"
#include "tests/train/dyadic.hpp"
#include "tests/train/slope.hpp"
#include "train/built_in_learner.hpp"
#include "train/layers/layer.hpp"
#include "train/layers/network.hpp"
#include "train/model.hpp"
#include "train/optimizer.hpp"

namespace gv {
namespace {

using Doubles = std::vector<double>;

const LayerSpec batch_norm{.kind = LayerKind::batch_norm};

ModelPlan plan_of(const ModelSpec& spec, const SampleShape& in) {
  Problems problems;
  ModelPlan plan = plan_model(spec, in, problems);
  REQUIRE(problems.empty());
  return plan;
}

/// A batch norm of one channel, with its parameters: gain, bias, mean and mean square.
struct OneChannel {
  ModelPlan plan = plan_of({.layers = {batch_norm}}, {1, 1, 1});
  std::unique_ptr<Layer<double>> layer = make_layer<double>(plan.layers[0]);
  Doubles parameters = {1, 0, 0, 1};

  Doubles forward(const Doubles& x, bool training) {
    Doubles y(x.size());
    Rng unused(0);
    layer->forward(parameters.data(), x.data(), y.data(), x.size(), training, unused);
    return y;
  }

  /// The gradient of the parameters, given that of the outputs.
  Doubles gradient(const Doubles& x, const Doubles& d_y, Doubles* d_x = nullptr) {
    const Doubles y = forward(x, true);
    Doubles result(4, NAN);
    layer->backward_input(parameters.data(), x.data(), y.data(), d_y.data(),
                          d_x != nullptr ? d_x->data() : nullptr, x.size());
    layer->backward_weight(parameters.data(), x.data(), y.data(), d_y.data(), result.data(),
                           x.size());
    return result;
  }
};

}  // namespace

TEST_CASE("a batch norm has the gradients of an independent computation") {
  OneChannel norm;
  const Doubles x = {1, 2, 0, 4, 5, -2, 3, 1};
  Doubles d_x(8);
  const Doubles gradient = norm.gradient(x, dyadic_dy.values<double>(8), &d_x);
  CHECK(gradient[1] == Approx(1.5));
  CHECK(gradient[0] == Approx(-3.8570360431763673).epsilon(1e-12));
  CHECK(checksum(d_x) == Approx(2.017526545661484).epsilon(1e-12));
  // The running statistics have no gradient. Their slots hold the running value minus the batch's.
  CHECK(gradient[2] == Approx(0 - 1.75));
  CHECK(gradient[3] == Approx(1 - (4.4375 + 1.75 * 1.75)));
}

TEST_CASE("a batch norm's backward pass agrees with finite differences") {
  const ModelPlan plan = plan_of({.layers = {batch_norm}}, {3, 2, 2});
  const auto layer = make_layer<double>(plan.layers[0]);
  constexpr std::size_t batch = 4;
  Rng rng(3);
  Doubles parameters = normals<double>(plan.layout.size(), rng);
  Doubles x = normals<double>(batch * 12, rng);
  const Doubles weights = normals<double>(x.size(), rng);
  Doubles y(x.size());
  const auto projected = [&] {
    layer->forward(parameters.data(), x.data(), y.data(), batch, true, rng);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += weights[i] * y[i];
    return sum;
  };
  projected();
  Doubles d_x(x.size());
  Doubles gradient(parameters.size());
  layer->backward_input(parameters.data(), x.data(), y.data(), weights.data(), d_x.data(), batch);
  layer->backward_weight(parameters.data(), x.data(), y.data(), weights.data(), gradient.data(),
                         batch);
  const auto compare = [&](double& value, double analytic) {
    CHECK(analytic == Approx(slope(value, projected)).epsilon(1e-6).margin(1e-8));
  };
  for (std::size_t i = 0; i < x.size(); ++i) compare(x[i], d_x[i]);
  // Compare only the six gains and biases. In training, no output depends on the statistics.
  for (std::size_t i = 0; i < 6; ++i) compare(parameters[i], gradient[i]);
}

TEST_CASE("the mean gradient of peers pools their statistics by their samples") {
  OneChannel norm;
  const Doubles first = norm.gradient({1, 2}, {0, 0});
  const Doubles second = norm.gradient({0, 4, 5, -2, 3, 1}, {0, 0, 0, 0, 0, 0});
  // A step against the mean gradient with a learning rate of 1 turns the running statistics into
  // those of all eight samples.
  const double mean = norm.parameters[2] - (2 * first[2] + 6 * second[2]) / 8;
  const double square = norm.parameters[3] - (2 * first[3] + 6 * second[3]) / 8;
  CHECK(mean == Approx(1.75));
  CHECK(square - mean * mean == Approx(4.4375));
}

TEST_CASE("mixed statistics contain what the means of peers differ by") {
  OneChannel norm;
  // One peer has mean 0 and variance 1, and another has mean 2 and variance 1. Their samples
  // together have variance 2.
  norm.parameters = {1, 0, (0 + 2) / 2.0, (1 + 5) / 2.0};
  const Doubles y = norm.forward({1, 3}, false);
  CHECK(y[0] == Approx(0));
  CHECK(y[1] == Approx(2 / std::sqrt(2 + 1e-5)));
}

TEST_CASE("a mean square below the square of the mean counts as no variance") {
  OneChannel norm;
  norm.parameters = {1, 0, 3, -7};
  const Doubles y = norm.forward({3, 4}, false);
  CHECK(y[0] == 0);
  CHECK(y[1] == Approx(1 / std::sqrt(1e-5)));
}

TEST_CASE("optimisers move statistics by a tenth whatever their settings") {
  const OptimizerKind kind =
      GENERATE(OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::nesterov,
               OptimizerKind::adagrad, OptimizerKind::rmsprop, OptimizerKind::adam,
               OptimizerKind::adamw, OptimizerKind::lars, OptimizerKind::lamb);
  const ModelSpec spec{.layers = {{.kind = LayerKind::dense, .units = 3}, batch_norm}};
  const ModelPlan plan = plan_of(spec, {2, 1, 1});
  const std::vector<Range> statistics = statistics_of(plan);
  REQUIRE(statistics == std::vector<Range>{{15, 21}});
  Optimizer optimizer({.kind = kind, .weight_decay = 0.5}, plan.layout, statistics);
  Optimizer without({.kind = kind, .weight_decay = 0.5}, plan.layout);
  std::vector<float> x(plan.layout.size(), 2.0F);
  std::vector<float> other = x;
  const std::vector<float> gradient(x.size(), 1.0F);
  for (int step = 1; step <= 3; ++step) {
    optimizer.step(x, gradient, 0.01);
    without.step(other, gradient, 0.01);
    for (std::size_t i = 0; i < 15; ++i) CHECK(x[i] == other[i]);
    for (std::size_t i = 15; i < 21; ++i) CHECK(x[i] == Approx(2.0F - 0.1F * step));
  }
  for (const auto& [name, values] : optimizer.vectors()) {
    INFO(name);
    CHECK(std::all_of(values.begin() + 15, values.end(), [](float value) { return value == 0; }));
  }
}

TEST_CASE("running statistics come to be those of the data") {
  const ModelSpec spec{.layers = {batch_norm, {.kind = LayerKind::dense, .units = 2}}};
  Model model(spec, {3, 2, 2}, 50);
  std::vector<float> parameters(model.layout().size());
  model.initialise(parameters, Rng(2));
  CHECK(parameters[6] == 0);  // The running mean of the first channel.
  CHECK(parameters[9] == 1);  // The running mean square of the first channel.
  Optimizer optimizer({.kind = OptimizerKind::sgd}, model.layout(), model.statistics());
  Rng rng(3);
  std::vector<float> inputs(50 * 12);
  for (float& value : inputs) value = static_cast<float>(3 + 2 * rng.normal());
  const std::vector<std::int32_t> labels(50, 1);
  const Batch batch{.inputs = inputs, .labels = labels, .targets = {}, .size = 50};
  std::vector<float> gradient(parameters.size());
  for (int step = 0; step < 100; ++step) {
    model.gradient(parameters, batch, gradient, rng);
    optimizer.step(parameters, gradient, 0);
  }
  for (std::size_t c = 0; c < 3; ++c) {
    // 200 values of standard deviation 2: the mean has an error of 0.14 and the mean square of
    // about 1.
    CHECK(parameters[6 + c] == Approx(3).margin(0.6));
    CHECK(parameters[9 + c] == Approx(13).margin(4));
  }
}

TEST_CASE("statistics inside other layers are found and go with their stage") {
  const LayerSpec pool{.kind = LayerKind::max_pool, .kernel = 1};
  const ModelSpec spec{
      .layers = {{.kind = LayerKind::conv2d, .units = 2, .kernel = 1},
                 {.kind = LayerKind::residual, .layers = {batch_norm}, .shortcut = {batch_norm}},
                 {.kind = LayerKind::concat, .layers = {batch_norm, pool}}}};
  const ModelPlan plan = plan_of(spec, {1, 2, 2});
  CHECK(statistics_of(plan) == std::vector<Range>{{8, 12}, {16, 20}, {24, 28}});
  CHECK(statistics_of(slice(plan, 2, 3)) == std::vector<Range>{{4, 8}});
}

/// Samples of three values around `mean`.
std::shared_ptr<const DataSet> around(float mean) {
  auto data = std::make_shared<DataSet>();
  data->shape = {3, 1, 1};
  data->classes = 2;
  Rng rng(5);
  for (int i = 0; i < 64; ++i) {
    for (int k = 0; k < 3; ++k) data->floats.push_back(mean + static_cast<float>(rng.normal()));
    data->labels.push_back(i % 2);
  }
  return data;
}
const TrainerSpec normalised{
    .model = {.layers = {batch_norm, {.kind = LayerKind::dense, .units = 2}}},
    .schedule = {.learning_rate = 0.01},
    .batch = 16,
    .steps = 1000};
/// Where the running means and mean squares begin in the parameters of `normalised`, after three
/// gains and three biases.
constexpr std::size_t mean_at = 6;
constexpr std::size_t square_at = 9;

TEST_CASE("running statistics of large inputs are not held like parameters") {
  const auto learner = built_in_learner(normalised, around(100));
  std::vector<float> gradient(learner->layout().size());
  SECTION("after updates") {
    for (int i = 0; i < 200; ++i) {
      learner->gradient(16, gradient);
      learner->update(gradient);
    }
  }
  SECTION("after own steps that are held") {
    learner->hold_steps(true);
    learner->run_steps(200);
    CHECK(learner->parameter_bound() == largest_gradient);
  }
  CHECK(learner->held() == 0);
  for (std::size_t c = 0; c < 3; ++c) {
    CHECK(learner->parameters()[mean_at + c] == Approx(100).epsilon(0.01));
    CHECK(learner->parameters()[square_at + c] == Approx(10000).epsilon(0.02));
  }
}

TEST_CASE("running statistics of large inputs are not held in a stage") {
  const auto stages = built_in_stage_learner({.trainer = normalised, .ends = {1, 2}}, around(100));
  stages->take_up(0);
  std::vector<float> gradient(stages->layout(0).size());
  for (std::size_t c = 0; c < 3; ++c) gradient[square_at + c] = -2000;
  for (int i = 0; i < 50; ++i) stages->update(0, gradient, 1);
  CHECK(stages->held() == 0);
  CHECK(stages->parameters(0)[square_at] == Approx(10001));
  // Values that another member sends are kept within a bound that keeps the arithmetic finite.
  stages->set(0, std::vector<float>(gradient.size(), 0x1p100F));
  CHECK(stages->held() == 1);
  CHECK(largest_magnitude(stages->parameters(0).first(mean_at)) == 1000);
  CHECK(largest_magnitude(stages->parameters(0)) == largest_gradient);
}

TEST_CASE("absurd statistics of another peer are held and the outputs stay finite") {
  const auto data = around(1);
  const auto learner = built_in_learner(normalised, data, data);
  const float bound = 1000 * std::max(1.0F, largest_magnitude(learner->parameters()));
  const auto change = [&](float statistic, float parameter) {
    learner->change_by_others([&](std::span<float> x) {
      std::ranges::fill(x, parameter);
      std::fill_n(x.begin() + mean_at, 6, statistic);
    });
  };
  change(0x1p100F, 1);
  CHECK(learner->held() == 1);
  CHECK(learner->parameters()[mean_at] == largest_gradient);
  CHECK(std::isfinite(learner->tunable()->validation_loss()));
  change(1, -0x1p100F);
  CHECK(learner->held() == 2);
  CHECK(learner->parameters()[0] == -bound);
  CHECK(learner->parameters()[square_at] == 1);
}

}  // namespace gv
