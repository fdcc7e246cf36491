// Ternary weights, compared with computations in double, closed forms and finite differences.
#include "train/layers/ternary.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/train/drawn.hpp"
#include "train/built_in_learner.hpp"
#include "train/data/generated.hpp"
#include "train/evaluation.hpp"
#include "train/layers/network.hpp"
#include "train/model.hpp"

namespace gv {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

Floats ternary_of(const Floats& weights) {
  Floats out(weights.size(), NAN);
  make_ternary(weights, out);
  return out;
}

/// The parameters, with all weight matrices made ternary.
Floats with_ternary_matrices(const Layout& layout, Floats parameters) {
  for (const auto& [begin, end] : weight_matrices(layout)) {
    const auto matrix = std::span(parameters).subspan(begin, end - begin);
    make_ternary(matrix, matrix);
  }
  return parameters;
}

double squared_distance(const Floats& weights, const Floats& signs, double scale) {
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double difference =
        static_cast<double>(weights[i]) - scale * static_cast<double>(signs[i]);
    sum += difference * difference;
  }
  return sum;
}

ModelSpec ternary(ModelSpec spec) {
  spec.weights = WeightValues::ternary;
  return spec;
}

ModelPlan plan_of(const ModelSpec& spec, const SampleShape& in) {
  Problems problems;
  ModelPlan plan = plan_model(spec, in, problems);
  REQUIRE(problems.empty());
  return plan;
}

struct Named {
  std::string name;
  ModelSpec spec;
  SampleShape in;
};

/// Models that have all layers with weight matrices, and no kinks.
std::vector<Named> smooth_models() {
  using K = LayerKind;
  const LayerSpec branch{
      .kind = K::residual,
      .layers = {{.kind = K::conv2d, .units = 3, .kernel = 3, .padding = 1}, {.kind = K::tanh}},
      .shortcut = {{.kind = K::conv2d, .units = 3, .kernel = 1}}};
  return {
      {"images",
       {.layers = {branch, {.kind = K::group_norm, .groups = 3}, {.kind = K::dense, .units = 4}}},
       {2, 5, 4}},
      {"tied transformer",
       transformer({.blocks = 1, .width = 8, .heads = 2, .tied = true}, 9),
       {5, 1, 1}},
      {"lstm",
       {.layers = {{.kind = K::embedding, .units = 4, .vocabulary = 7},
                   {.kind = K::lstm, .units = 6},
                   {.kind = K::dense, .units = 7, .per_position = true}}},
       {5, 1, 1}}};
}

constexpr std::size_t batch = 3;

/// The inputs of a network, which are the same in float and in double.
struct Given {
  Floats parameters, inputs, d_outputs;
};

Given given_for(const ModelPlan& plan) {
  Rng rng(11);
  Given given;
  given.parameters = normals<float>(plan.layout.size(), rng);
  for (float& value : given.parameters) value /= 2;
  given.inputs = normals<float>(batch * elements(plan.in), rng);
  if (const LayerSpec& first = plan.layers.front().spec; first.kind == LayerKind::embedding) {
    for (float& id : given.inputs) id = static_cast<float>(rng.below(first.vocabulary));
  }
  given.d_outputs = normals<float>(batch * plan.outputs, rng);
  return given;
}

/// The product of d_outputs and the outputs of a network in double.
double value_of(Network<double>& network, const Doubles& parameters, const Given& given) {
  const Doubles inputs(given.inputs.begin(), given.inputs.end());
  Rng unused(0);
  const auto outputs = network.forward(parameters, inputs, true, unused);
  double sum = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    sum += outputs[i] * static_cast<double>(given.d_outputs[i]);
  }
  return sum;
}

DataSet blobs(std::uint64_t stream) {
  return generate_blobs(
      {.samples = 2000, .features = 16, .classes = 5, .blobs = 5, .noise = 0.5, .seed = 4}, stream);
}

TrainerSpec trainer_of(ModelSpec model) {
  return {.model = std::move(model),
          .optimizer = {.kind = OptimizerKind::sgd},
          .schedule = {.learning_rate = 0.25},
          .batch = 32,
          .steps = 1000};
}

}  // namespace

TEST_CASE("weights above 0.7 times the mean magnitude become plus or minus their own mean") {
  // The mean of the magnitudes is 6 / 6, so the threshold is 0.7. The magnitudes above it have the
  // mean 5.5 / 3.
  const Floats weights = {1, -2, 0.125F, -0.375F, 2.5F, 0};
  const TernaryForm form = ternary_form(weights);
  CHECK(form.threshold == 0.7F);
  const float scale = 5.5F / 3;
  CHECK(form.scale == scale);
  CHECK(ternary_of(weights) == Floats{scale, -scale, 0, 0, scale, 0});
}

TEST_CASE("the ternary form is what a straight computation in double finds") {
  for (const std::size_t size : {1U, 2U, 15U, 16U, 17U, 31U, 33U, 1000U, 4099U}) {
    Rng rng(size);
    Floats weights = normals<float>(size, rng);
    if (size % 2 == 1) {
      for (float& weight : weights) weight = weight * weight * weight / 64;
    }
    double mean = 0;
    for (const float weight : weights) mean += std::abs(static_cast<double>(weight));
    const double threshold = 0.7 * mean / static_cast<double>(size);
    double sum = 0;
    double count = 0;
    for (const float weight : weights) {
      if (std::abs(static_cast<double>(weight)) <= threshold) continue;
      sum += std::abs(static_cast<double>(weight));
      ++count;
    }
    INFO(size);
    const TernaryForm form = ternary_form(weights);
    // Threshold and scale are each rounded to float once.
    CHECK(form.threshold == Approx(threshold).epsilon(1e-7));
    CHECK(form.scale == Approx(sum / count).epsilon(1e-7));
    const Floats out = ternary_of(weights);
    for (std::size_t i = 0; i < size; ++i) {
      const bool is_above = std::abs(static_cast<double>(weights[i])) > threshold;
      CHECK(out[i] == (is_above ? std::copysign(form.scale, weights[i]) : 0.0F));
    }
  }
}

TEST_CASE("no other scale brings ternary weights nearer to the weights") {
  Rng rng(2);
  const Floats weights = normals<float>(500, rng);
  const auto scale = static_cast<double>(ternary_form(weights).scale);
  Floats signs = ternary_of(weights);
  double product = 0;
  double square = 0;
  for (std::size_t i = 0; i < signs.size(); ++i) {
    if (signs[i] != 0) signs[i] = std::copysign(1.0F, signs[i]);
    product += static_cast<double>(weights[i]) * static_cast<double>(signs[i]);
    square += static_cast<double>(signs[i] * signs[i]);
  }
  // |w - a t|^2 = |w|^2 - 2 a (w t) + a^2 |t|^2 is smallest at a = (w t) / |t|^2.
  CHECK(scale == Approx(product / square).epsilon(1e-7));
  const double least = squared_distance(weights, signs, scale);
  CHECK(squared_distance(weights, signs, 0.99 * scale) > least);
  CHECK(squared_distance(weights, signs, 1.01 * scale) > least);
  // The threshold is also near the best one: the signs of all weights give a worse fit.
  Floats all(weights.size());
  std::ranges::transform(weights, all.begin(), [](float w) { return std::copysign(1.0F, w); });
  double mean = 0;
  for (const float weight : weights) mean += std::abs(static_cast<double>(weight)) / 500;
  CHECK(squared_distance(weights, all, mean) > 1.5 * least);
}

TEST_CASE("ternary weights stay as they are and weights that are not finite are seen") {
  Rng rng(3);
  Floats weights = normals<float>(777, rng);
  const Floats once = ternary_of(weights);
  CHECK(ternary_of(once) == once);
  make_ternary(weights, weights);
  CHECK(weights == once);
  CHECK(ternary_of({0, 0, 0}) == Floats{0, 0, 0});
  CHECK(ternary_of({}).empty());
  CHECK(std::isfinite(ternary_of(Floats(40, std::numeric_limits<float>::denorm_min())).front()));
  CHECK(ternary_of({std::numeric_limits<float>::max(), std::numeric_limits<float>::max()}) ==
        Floats(2, std::numeric_limits<float>::max()));
  CHECK(ternary_of({1, INFINITY, -0.1F}) == Floats{1, INFINITY, -0.1F});
  const Floats diverged = ternary_of({1, NAN, -0.1F});
  CHECK(diverged[0] == 1);
  CHECK(std::isnan(diverged[1]));
  CHECK(diverged[2] == -0.1F);
}

TEST_CASE("matrices of layers are ternary and vectors and tables are not") {
  const auto matrices_in = [](const ModelSpec& spec, const SampleShape& in) {
    std::vector<std::string> names;
    const ModelPlan plan = plan_of(spec, in);
    const std::vector<Range> matrices = weight_matrices(plan.layout);
    for (const TensorSlot& slot : plan.layout.slots()) {
      const Range range{slot.offset, slot.offset + slot.size};
      if (std::ranges::find(matrices, range) != matrices.end()) names.push_back(slot.name);
    }
    CHECK(names.size() == matrices.size());
    return names;
  };
  using Names = std::vector<std::string>;
  const std::vector<Named> models = smooth_models();
  CHECK(matrices_in(models[0].spec, models[0].in) ==
        Names{"conv1.weight", "conv2.weight", "dense1.weight"});
  // The tied output layer uses the embedding's table.
  CHECK(matrices_in(models[1].spec, models[1].in) ==
        Names{"attention1.qkv.weight", "attention1.out.weight", "dense1.weight", "dense2.weight"});
  CHECK(matrices_in(models[2].spec, models[2].in) ==
        Names{"lstm1.input_gates", "lstm1.state_gates", "dense1.weight"});
  const ModelSpec normalised{
      .layers = {{.kind = LayerKind::batch_norm}, {.kind = LayerKind::dense, .units = 2}}};
  CHECK(matrices_in(normalised, {3, 2, 2}) == Names{"dense1.weight"});
}

TEST_CASE("a model without a weight matrix cannot be ternary") {
  const ModelSpec clusters{.layers = {{.kind = LayerKind::clusters, .units = 3}},
                           .loss = LossKind::reconstruction};
  CHECK(problems(clusters, {4, 1, 1}).empty());
  const Problems found = problems(ternary(clusters), {4, 1, 1});
  REQUIRE(found.size() == 1);
  CHECK(found.front().place == "layers");
  CHECK(found.front().remedy == "write weights = \"float\"");
}

TEST_CASE("the gradient is that at the ternary weights by finite differences") {
  for (const Named& model : smooth_models()) {
    INFO(model.name);
    const ModelPlan plan = plan_of(ternary(model.spec), model.in);
    const Given given = given_for(plan);
    const auto network = make_network(plan, batch);
    Rng unused(0);
    const auto outputs = network->forward(given.parameters, given.inputs, true, unused);
    const Floats y(outputs.begin(), outputs.end());
    Floats gradient(given.parameters.size(), NAN);
    network->backward(given.parameters, given.d_outputs, gradient);

    const Floats at = with_ternary_matrices(plan.layout, given.parameters);
    REQUIRE(at != given.parameters);
    Doubles x(at.begin(), at.end());
    const auto exact = make_plain_network<double>(plan, batch);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      sum += static_cast<double>(y[i]) * static_cast<double>(given.d_outputs[i]);
    }
    CHECK(sum == Approx(value_of(*exact, x, given)).margin(1e-3));
    double largest = 0;
    for (const float value : gradient) {
      largest = std::max(largest, std::abs(static_cast<double>(value)));
    }
    constexpr double step = 1e-5;
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double before = std::exchange(x[i], x[i] + step);
      const double above = value_of(*exact, x, given);
      x[i] = before - step;
      const double below = value_of(*exact, x, given);
      x[i] = before;
      worst = std::max(worst,
                       std::abs((above - below) / (2 * step) - static_cast<double>(gradient[i])));
    }
    // The gradient is computed in float, from sums of some dozens of terms.
    CHECK(worst < 1e-4 * largest);
  }
}

TEST_CASE("both halves of a backward pass use the weights of their forward pass") {
  const Named model = smooth_models().front();
  const ModelPlan plan = plan_of(ternary(model.spec), model.in);
  const Given given = given_for(plan);
  const auto network = make_network(plan, batch);
  Rng unused(0);
  network->forward(given.parameters, given.inputs, true, unused);
  Floats whole(given.parameters.size(), NAN);
  const auto d_inputs = network->backward(given.parameters, given.d_outputs, whole, {}, true);
  const Floats before(d_inputs.begin(), d_inputs.end());
  network->forward(given.parameters, given.inputs, true, unused);
  const auto in_parts = network->backward_input(given.parameters, given.d_outputs, true);
  CHECK(Floats(in_parts.begin(), in_parts.end()) == before);
  Floats parts(given.parameters.size(), NAN);
  network->backward_weight(given.parameters, parts);
  CHECK(parts == whole);
}

TEST_CASE("a step changes the floats behind ternary weights by the gradient at these") {
  const auto data = std::make_shared<const DataSet>(blobs(0));
  const auto learner = built_in_learner(trainer_of(ternary(mlp({24}, 5))), data);
  const Floats first(learner->parameters().begin(), learner->parameters().end());
  // This learner has the same samples, and its parameters are the ternary weights.
  const auto other = built_in_learner(trainer_of(mlp({24}, 5)), data);
  const Floats at = with_ternary_matrices(learner->layout(), first);
  std::ranges::copy(at, other->live_parameters().begin());
  Floats gradient(first.size());
  Floats expected(first.size());
  const Score score = learner->gradient(32, gradient);
  CHECK(score.loss == other->gradient(32, expected).loss);
  CHECK(gradient == expected);
  learner->update(gradient, 32);
  for (std::size_t i = 0; i < first.size(); ++i) {
    REQUIRE(learner->parameters()[i] == Approx(first[i] - 0.25F * gradient[i]).margin(1e-7));
  }
  // A model is evaluated with its ternary weights.
  Model judge(ternary(mlp({24}, 5)), data->shape, evaluation_batch(*data));
  Model plain(mlp({24}, 5), data->shape, evaluation_batch(*data));
  const Floats now(learner->parameters().begin(), learner->parameters().end());
  const Score judged = evaluate(judge, now, *data);
  CHECK(judged.loss == evaluate(plain, with_ternary_matrices(learner->layout(), now), *data).loss);
  CHECK(judged.loss != evaluate(plain, now, *data).loss);
}

TEST_CASE("training with ternary weights makes better ones than rounding after training") {
  const auto data = std::make_shared<const DataSet>(blobs(0));
  const DataSet test = blobs(1);
  const auto accuracy_of = [&](const ModelSpec& trained, const ModelSpec& judged) {
    const auto learner = built_in_learner(trainer_of(trained), data);
    learner->run_steps(600);
    Model model(judged, test.shape, evaluation_batch(test));
    return evaluate(model, learner->parameters(), test).accuracy();
  };
  const ModelSpec plain = mlp({32, 32}, 5);
  const double floats = accuracy_of(plain, plain);
  const double learned = accuracy_of(ternary(plain), ternary(plain));
  const double rounded = accuracy_of(plain, ternary(plain));
  INFO(floats << ", " << learned << " and " << rounded);
  CHECK(learned > floats - 0.06);
  CHECK(learned > rounded + 0.1);
}

}  // namespace gv
