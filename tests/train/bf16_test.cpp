// Training in which products have factors rounded to bfloat16, and are summed in float32.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/halves.hpp"
#include "tests/train/drawn.hpp"
#include "tests/train/dyadic.hpp"
#include "train/built_in_learner.hpp"
#include "train/layers/network.hpp"

namespace gv {
namespace {

using Floats = std::vector<float>;

const LayerSpec dense{.kind = LayerKind::dense, .units = 24};
const LayerSpec convolution{.kind = LayerKind::conv2d, .units = 20, .kernel = 3, .padding = 1};

/// Outputs, gradient of the inputs, and gradient of the parameters.
struct Passes {
  Floats y, dx, gradient;
  friend bool operator==(const Passes&, const Passes&) = default;
};

struct Given {
  std::size_t batch;
  Floats parameters, x, dy;
};

ModelPlan plan_of(const LayerSpec& layer, const SampleShape& in, Precision precision) {
  Problems problems;
  ModelPlan plan = plan_model({.layers = {layer}, .precision = precision}, in, problems);
  REQUIRE(problems.empty());
  return plan;
}

Passes passes_of(Network<float>& network, const Given& given) {
  Rng unused(0);
  Passes all{.y = {}, .dx = {}, .gradient = Floats(given.parameters.size(), NAN)};
  const auto y = network.forward(given.parameters, given.x, true, unused);
  all.y.assign(y.begin(), y.end());
  const auto dx = network.backward(given.parameters, given.dy, all.gradient, {}, true);
  all.dx.assign(dx.begin(), dx.end());
  return all;
}

/// The passes of the plan's network in each implementation of networks.
std::vector<Passes> all_passes(const ModelPlan& plan, const Given& given) {
  std::vector<Passes> all{passes_of(*make_plain_network<float>(plan, given.batch), given)};
  if (const auto fast = make_onednn_network(plan, given.batch)) {
    all.push_back(passes_of(*fast, given));
  }
  return all;
}

double difference(const Floats& a, const Floats& b) {
  double worst = 0;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]));
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return worst / largest;
}

/// Noisy images of ten patterns. A quarter of the labels are random, so no model's loss gets near
/// zero, where a small difference would be a large part of it.
std::shared_ptr<const DataSet> patterns(std::size_t count) {
  auto data = std::make_shared<DataSet>();
  data->shape = {1, 28, 28};
  data->classes = 10;
  data->normalise(0.5F, 5.0F);  // Inputs of mean 0 and standard deviation 1.
  Rng rng(1);
  std::vector<std::uint8_t> means(10 * 784);
  for (std::uint8_t& mean : means) mean = static_cast<std::uint8_t>(rng.below(128));
  for (std::size_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::size_t>(rng.below(10));
    const bool is_wrong = rng.below(4) == 0;
    data->labels.push_back(static_cast<std::int32_t>(is_wrong ? rng.below(10) : label));
    for (std::size_t place = 0; place < 784; ++place) {
      data->bytes.push_back(static_cast<std::uint8_t>(means[label * 784 + place] + rng.below(128)));
    }
  }
  return data;
}

/// Windows of a text. Each byte follows from the one before it, except for one in eight.
std::shared_ptr<const DataSet> text(std::size_t count) {
  auto data = std::make_shared<DataSet>();
  constexpr std::size_t context = 16;
  data->shape = {context, 1, 1};
  data->classes = 32;
  data->predictions = context;
  data->scale = 255;
  Rng rng(1);
  std::size_t byte = 0;
  for (std::size_t i = 0; i < count * context; ++i) {
    data->bytes.push_back(static_cast<std::uint8_t>(byte));
    byte = rng.below(8) == 0 ? static_cast<std::size_t>(rng.below(32)) : (byte * 5 + 3) % 32;
    data->labels.push_back(static_cast<std::int32_t>(byte));
  }
  return data;
}

/// The mean loss over the second half of the steps, in which the loss hardly falls any more.
double loss_of(ModelSpec model, Precision precision, const std::shared_ptr<const DataSet>& data,
               std::size_t steps, double rate) {
  model.precision = precision;
  const auto learner = built_in_learner({.model = std::move(model),
                                         .optimizer = {.kind = OptimizerKind::nesterov},
                                         .schedule = {.learning_rate = rate},
                                         .batch = 32,
                                         .steps = 10 * steps},
                                        data);
  learner->run_steps(steps / 2);
  return learner->run_steps(steps / 2).mean_loss();
}

}  // namespace

TEST_CASE("numbers are rounded to the nearest bfloat16 and to even in a tie") {
  const Floats values = {1.0F + 0x1p-8F,  1.0F + 0x3p-9F, 1.0F + 0x3p-8F,
                         -1.0F - 0x1p-8F, 0.01F,          INFINITY};
  Floats rounded(values.size());
  round_to_bf16(values, rounded.data());
  CHECK(rounded == Floats{1, 1.0078125F, 1.015625F, -1, 0.010009765625F, INFINITY});
  Floats nan = {NAN};
  round_to_bf16(nan, nan.data());
  CHECK(std::isnan(nan[0]));
}

TEST_CASE("a sum of rounded products is not rounded") {
  // If the sum were in bfloat16, adding 0.01 a thousand times would stop at 4.
  const ModelPlan plan =
      plan_of({.kind = LayerKind::dense, .units = 1}, {1000, 1, 1}, Precision::bf16);
  Given given{.batch = 1, .parameters = Floats(1001, 1), .x = Floats(1000, 0.01F), .dy = {1}};
  given.parameters[1000] = 0.1F;  // A bias is not a factor, so it is not rounded.
  for (const Passes& passes : all_passes(plan, given)) {
    CHECK(passes.y[0] == Approx(10.009766 + 0.1).epsilon(1e-6));
    CHECK(passes.gradient[0] == 0.010009765625F);
  }
}

TEST_CASE("where bfloat16 holds all factors it changes no bit") {
  for (const LayerSpec& layer : {dense, convolution}) {
    const SampleShape in{18, 6, 5};
    const ModelPlan exact = plan_of(layer, in, Precision::float32);
    const Given given{.batch = 3,
                      .parameters = dyadic_w.values<float>(exact.layout.size()),
                      .x = dyadic_x.values<float>(3 * elements(in)),
                      .dy = dyadic_dy.values<float>(3 * exact.outputs)};
    const Passes expected = passes_of(*make_plain_network<float>(exact, 3), given);
    for (const Passes& passes : all_passes(plan_of(layer, in, Precision::bf16), given)) {
      CHECK(passes == expected);
    }
  }
}

TEST_CASE("instructions for bfloat16 compute what rounding by hand computes") {
  for (const LayerSpec& layer : {dense, convolution}) {
    const SampleShape in{18, 6, 5};
    const ModelPlan plan = plan_of(layer, in, Precision::bf16);
    Rng rng(4);
    const Given given{.batch = 3,
                      .parameters = normals<float>(plan.layout.size(), rng),
                      .x = normals<float>(3 * elements(in), rng),
                      .dy = normals<float>(3 * plan.outputs, rng)};
    const std::vector<Passes> all = all_passes(plan, given);
    // The implementations add up to 540 terms in different orders.
    CHECK(difference(all.back().y, all.front().y) < 2e-6);
    CHECK(difference(all.back().dx, all.front().dx) < 2e-6);
    CHECK(difference(all.back().gradient, all.front().gradient) < 2e-6);
    // A factor is off by at most a fraction of 2^-9, and a sum of many products by less.
    const Passes exact =
        passes_of(*make_plain_network<float>(plan_of(layer, in, Precision::float32), 3), given);
    const double rounding = difference(all.back().y, exact.y);
    CHECK(rounding > 1e-4);
    CHECK(rounding < 4e-3);
  }
}

TEST_CASE("with bfloat16 the loss of each named model is within a hundredth of float32's") {
  struct Case {
    const char* name;
    ModelSpec model;
    std::shared_ptr<const DataSet> data;
    std::size_t steps;
    double rate;
  };
  const auto images = patterns(4096);
  const std::vector<Case> cases = {
      {"mlp", mlp({64, 32}, 10), images, 200, 0.003},
      {"lenet", lenet(10), images, 400, 0.002},
      {"cnn", cnn(10), images, 50, 0.001},
      {"transformer", transformer({.blocks = 2, .width = 32, .heads = 4, .tied = true}, 32),
       text(2048), 60, 0.02}};
  for (const Case& one : cases) {
    INFO(one.name);
    const double exact = loss_of(one.model, Precision::float32, one.data, one.steps, one.rate);
    const double rounded = loss_of(one.model, Precision::bf16, one.data, one.steps, one.rate);
    INFO(exact << " and " << rounded);
    CHECK(rounded != exact);
    CHECK(rounded == Approx(exact).epsilon(0.01));
  }
}

}  // namespace gv
