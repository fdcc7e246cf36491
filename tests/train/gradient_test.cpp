// Every layer's gradient compared with finite differences, and oneDNN compared with the plain
// layers.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <utility>
#include <vector>

#include "tests/train/drawn.hpp"
#include "tests/train/slope.hpp"
#include "train/layers/layer.hpp"
#include "train/layers/loss.hpp"
#include "train/layers/network.hpp"
#include "train/model.hpp"

namespace gv {
namespace {

/// Largest difference between the backward pass and central differences, relative to the largest
/// derivative, for inputs and parameters. The function is a random projection of the outputs. In
/// double precision with a step of 1e-5, the differences themselves have an error of about 1e-10
/// (truncation h^2, rounding 1e-16 / h).
double gradient_error(const LayerSpec& spec, const SampleShape& in, std::uint64_t seed) {
  Problems problems;
  const ModelPlan plan = plan_model({.layers = {spec}}, in, problems);
  const LayerPlan& shape = plan.layers.at(0);
  const auto layer = make_layer<double>(shape);
  constexpr std::size_t batch = 3;
  Rng rng(seed);
  std::vector<double> parameters = normals<double>(plan.layout.size(), rng);
  std::vector<double> x = normals<double>(batch * elements(shape.in), rng);
  const std::vector<double> weights = normals<double>(batch * elements(shape.out), rng);
  std::vector<double> y(batch * elements(shape.out));
  const auto projected = [&] {
    Rng same(seed + 1);  // The same units are dropped every time.
    layer->forward(parameters.data(), x.data(), y.data(), batch, true, same);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += weights[i] * y[i];
    return sum;
  };
  projected();
  std::vector<double> d_x(x.size());
  std::vector<double> d_parameters(parameters.size());
  layer->backward_input(parameters.data(), x.data(), y.data(), weights.data(), d_x.data(), batch);
  layer->backward_weight(parameters.data(), x.data(), y.data(), weights.data(), d_parameters.data(),
                         batch);
  double worst = 0;
  double largest = 0;
  const auto compare = [&](std::vector<double>& values, const std::vector<double>& analytic) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      constexpr double step = 1e-5;
      const double kept = values[i];
      values[i] = kept + step;
      const double above = projected();
      values[i] = kept - step;
      const double below = projected();
      values[i] = kept;
      worst = std::max(worst, std::abs((above - below) / (2 * step) - analytic[i]));
      largest = std::max(largest, std::abs(analytic[i]));
    }
  };
  compare(x, d_x);
  compare(parameters, d_parameters);
  return worst / largest;
}

struct Case {
  const char* name;
  LayerSpec spec;
  SampleShape in;
};

/// Outputs and gradients of both implementations of a model, compared on the same random batch.
struct Both {
  double outputs = 0;  ///< Largest difference relative to the largest value.
  double gradients = 0;
};

double relative_difference(std::span<const float> a, std::span<const float> b) {
  double worst = 0;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]));
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return worst / largest;
}

Both compare_networks(const ModelSpec& spec, const SampleShape& in, std::size_t batch) {
  Problems problems;
  const ModelPlan plan = plan_model(spec, in, problems);
  REQUIRE(problems.empty());
  const auto plain = make_plain_network<float>(plan, batch);
  const auto fast = make_onednn_network(plan, batch);
  if (!fast) return {};
  Rng rng(5);
  std::vector<float> parameters(plan.layout.size());
  Model(spec, in, batch).initialise(parameters, rng);
  std::vector<float> inputs(batch * elements(in));
  for (float& value : inputs) value = static_cast<float>(rng.normal());
  std::vector<float> d_outputs(batch * plan.outputs);
  for (float& value : d_outputs) value = static_cast<float>(rng.normal());
  Rng same_a(9);
  Rng same_b(9);
  Both both;
  const auto a = fast->forward(parameters, inputs, true, same_a);
  const auto b = plain->forward(parameters, inputs, true, same_b);
  both.outputs = relative_difference(a, b);
  std::vector<float> ga(plan.layout.size(), NAN);
  std::vector<float> gb(plan.layout.size());
  fast->backward(parameters, d_outputs, ga);
  plain->backward(parameters, d_outputs, gb);
  both.gradients = relative_difference(ga, gb);
  return both;
}

}  // namespace

TEST_CASE("every layer's backward pass agrees with finite differences in double precision") {
  const Case checked = GENERATE(values<Case>({
      {"dense", {.kind = LayerKind::dense, .units = 5}, {7, 1, 1}},
      {"dense on images", {.kind = LayerKind::dense, .units = 3}, {2, 3, 4}},
      {"conv", {.kind = LayerKind::conv2d, .units = 4, .kernel = 3}, {2, 6, 5}},
      {"conv padded",
       {.kind = LayerKind::conv2d, .units = 3, .kernel = 3, .padding = 1},
       {2, 4, 5}},
      {"conv strided",
       {.kind = LayerKind::conv2d, .units = 2, .kernel = 3, .stride = 2, .padding = 2},
       {3, 6, 7}},
      {"conv by spectra",
       {.kind = LayerKind::conv2d,
        .units = 3,
        .kernel = 3,
        .padding = 1,
        .convolution = ConvolutionMethod::fft},
       {2, 4, 5}},
      {"conv by spectra strided",
       {.kind = LayerKind::conv2d,
        .units = 2,
        .kernel = 4,
        .stride = 2,
        .padding = 3,
        .convolution = ConvolutionMethod::fft},
       {2, 7, 6}},
      {"max pool", {.kind = LayerKind::max_pool, .kernel = 2}, {3, 4, 6}},
      {"max pool overlapping", {.kind = LayerKind::max_pool, .kernel = 3, .stride = 2}, {2, 7, 6}},
      {"max pool padded",
       {.kind = LayerKind::max_pool, .kernel = 3, .stride = 1, .padding = 1},
       {2, 4, 5}},
      {"avg pool", {.kind = LayerKind::avg_pool, .kernel = 2}, {3, 5, 4}},
      {"avg pool overlapping", {.kind = LayerKind::avg_pool, .kernel = 3, .stride = 1}, {2, 5, 6}},
      {"flatten", {.kind = LayerKind::flatten}, {2, 3, 2}},
      {"relu", {.kind = LayerKind::relu}, {5, 2, 2}},
      {"tanh", {.kind = LayerKind::tanh}, {5, 2, 2}},
      {"gelu", {.kind = LayerKind::gelu}, {5, 2, 2}},
      {"dropout", {.kind = LayerKind::dropout, .rate = 0.4}, {6, 2, 2}},
      {"layer norm", {.kind = LayerKind::layer_norm}, {3, 2, 4}},
      {"group norm", {.kind = LayerKind::group_norm, .groups = 2}, {4, 3, 2}},
      {"group norm one group", {.kind = LayerKind::group_norm, .groups = 1}, {4, 2, 2}},
      {"dense per position",
       {.kind = LayerKind::dense, .units = 3, .per_position = true},
       {4, 1, 5}},
      {"layer norm per position", {.kind = LayerKind::layer_norm, .per_position = true}, {4, 1, 6}},
      {"attention", {.kind = LayerKind::attention, .heads = 2}, {5, 1, 6}},
      {"attention one head", {.kind = LayerKind::attention, .heads = 1}, {3, 1, 4}},
      {"lstm", {.kind = LayerKind::lstm, .units = 4}, {5, 1, 3}},
      {"kernel features", {.kind = LayerKind::kernel_features, .units = 6}, {5, 1, 2}},
      {"lstm of one position", {.kind = LayerKind::lstm, .units = 3}, {1, 1, 2}},
  }));
  INFO(checked.name);
  // The bound is two orders of magnitude above the error of the differences, and four below any
  // real mistake.
  CHECK(gradient_error(checked.spec, checked.in, 3) < 1e-7);
}

TEST_CASE("the backward pass through layers inside others agrees with finite differences") {
  const Case checked = GENERATE(values<Case>({
      {"residual with a projection",
       {.kind = LayerKind::residual,
        .layers = {{.kind = LayerKind::conv2d, .units = 4, .kernel = 3, .stride = 2, .padding = 1},
                   {.kind = LayerKind::tanh},
                   {.kind = LayerKind::conv2d, .units = 4, .kernel = 3, .padding = 1}},
        .shortcut = {{.kind = LayerKind::conv2d, .units = 4, .kernel = 1, .stride = 2}}},
       {3, 6, 5}},
      {"stack",
       {.kind = LayerKind::stack,
        .layers = {{.kind = LayerKind::dense, .units = 4},
                   {.kind = LayerKind::tanh},
                   {.kind = LayerKind::dense, .units = 2}}},
       {5, 1, 1}},
      {"concat",
       {.kind = LayerKind::concat,
        .layers = {{.kind = LayerKind::conv2d, .units = 3, .kernel = 3, .padding = 1},
                   {.kind = LayerKind::stack},
                   {.kind = LayerKind::stack,
                    .layers = {{.kind = LayerKind::conv2d, .units = 2, .kernel = 1},
                               {.kind = LayerKind::tanh},
                               {.kind = LayerKind::conv2d, .units = 2, .kernel = 3, .padding = 1}}},
                   {.kind = LayerKind::avg_pool, .kernel = 1}}},
       {2, 4, 5}},
      {"residual",
       {.kind = LayerKind::residual,
        .layers = {{.kind = LayerKind::layer_norm, .per_position = true},
                   {.kind = LayerKind::attention, .heads = 3},
                   {.kind = LayerKind::gelu},
                   {.kind = LayerKind::dense, .units = 6, .per_position = true}}},
       {4, 1, 6}},
  }));
  INFO(checked.name);
  CHECK(gradient_error(checked.spec, checked.in, 3) < 1e-7);
}

TEST_CASE("cross-entropy's gradient agrees with finite differences and shifts cancel") {
  Rng rng(4);
  std::vector<double> outputs = normals<double>(4 * 5, rng);
  const std::vector<std::int32_t> labels{0, 4, 2, 2};
  std::vector<double> gradient(outputs.size());
  cross_entropy<double>(outputs, labels, 5, gradient);
  const auto loss = [&] { return cross_entropy<double>(outputs, labels, 5, {}).loss; };
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    CHECK(gradient[i] == Approx(slope(outputs[i], loss) / 4).margin(1e-9));
  }
  const double plain = cross_entropy<double>(outputs, labels, 5, {}).loss;
  for (double& value : outputs) value += 1000;
  CHECK(cross_entropy<double>(outputs, labels, 5, {}).loss == Approx(plain).epsilon(1e-9));
}

namespace {

/// Returns a model's gradient. The model's dense layers write factors, which are multiplied out.
std::vector<float> multiplied_gradient(Network<float>& network, const ModelPlan& plan,
                                       const std::vector<DenseWeights>& dense, std::size_t batch,
                                       std::span<const float> parameters,
                                       std::span<const float> d_outputs) {
  std::vector<std::size_t> offsets;
  for (const DenseWeights& weights : dense) offsets.push_back(weights.offset);
  network.give_factors(offsets);
  std::vector<float> gradient(plan.layout.size());
  network.backward(parameters, d_outputs, gradient);
  for (const DenseWeights& weights : dense) {
    const std::size_t rows = batch * weights.rows;
    float* const place = gradient.data() + weights.offset;
    const std::vector<float> dy(place, place + rows * weights.outputs);
    const std::vector<float> x(place + dy.size(), place + dy.size() + rows * weights.inputs);
    for (std::size_t o = 0; o < weights.outputs; ++o) {
      for (std::size_t i = 0; i < weights.inputs; ++i) {
        double sum = 0;
        for (std::size_t row = 0; row < rows; ++row) {
          sum += static_cast<double>(dy[row * weights.outputs + o]) * x[row * weights.inputs + i];
        }
        place[o * weights.inputs + i] = static_cast<float>(sum);
      }
    }
  }
  return gradient;
}

struct NamedModel {
  const char* name;
  ModelSpec spec;
  SampleShape in;
};

/// GoogLeNet's block (Szegedy 2015). `channels` has one number for the first branch, two for the
/// second, two for the third, and one for the last.
LayerSpec inception_block(const std::array<std::size_t, 6>& channels = {8, 4, 12, 2, 4, 4}) {
  using K = LayerKind;
  const auto convolution = [](std::size_t units, std::size_t kernel) {
    return LayerSpec{
        .kind = K::conv2d, .units = units, .kernel = kernel, .padding = (kernel - 1) / 2};
  };
  const LayerSpec relu{.kind = K::relu};
  const LayerSpec pool{.kind = K::max_pool, .kernel = 3, .stride = 1, .padding = 1};
  const auto stack = [](std::vector<LayerSpec> layers) {
    return LayerSpec{.kind = K::stack, .layers = std::move(layers)};
  };
  return {.kind = K::concat,
          .layers = {stack({convolution(channels[0], 1), relu}),
                     stack({convolution(channels[1], 1), relu, convolution(channels[2], 3), relu}),
                     stack({convolution(channels[3], 1), relu, convolution(channels[4], 5), relu}),
                     stack({pool, convolution(channels[5], 1), relu})}};
}

std::vector<NamedModel> models_with_branches() {
  using K = LayerKind;
  return {
      {"an inception block between other layers",
       {.layers = {{.kind = K::conv2d, .units = 16, .kernel = 3, .padding = 1},
                   {.kind = K::relu},
                   {.kind = K::max_pool, .kernel = 3, .stride = 2, .padding = 1},
                   inception_block(),
                   {.kind = K::batch_norm},
                   {.kind = K::avg_pool, .kernel = 4},
                   {.kind = K::dense, .units = 5}}},
       {3, 8, 8}},
      {"begins and ends in a concat",
       {.layers = {{.kind = K::concat,
                    .layers = {{.kind = K::stack}, {.kind = K::max_pool, .kernel = 1}}},
                   inception_block(),
                   {.kind = K::concat,
                    .layers = {{.kind = K::dense, .units = 5}, {.kind = K::dense, .units = 2}}}}},
       {2, 6, 6}}};
}

std::vector<NamedModel> models_of_many_layers() {
  using K = LayerKind;
  return {
      {"mlp", mlp({64, 32}, 10), {784, 1, 1}},
      {"linear on images", linear(7), {3, 5, 4}},
      {"lenet", lenet(10), {1, 28, 28}},
      {"cnn", cnn(10), {1, 28, 28}},
      {"cnn on colour", cnn(10), {3, 32, 32}},
      {"mixed",
       {.layers = {{.kind = K::conv2d, .units = 20, .kernel = 3, .stride = 2, .padding = 1},
                   {.kind = K::group_norm, .groups = 4},
                   {.kind = K::gelu},
                   {.kind = K::conv2d, .units = 16, .kernel = 3},
                   {.kind = K::tanh},
                   {.kind = K::avg_pool, .kernel = 2},
                   {.kind = K::flatten},
                   {.kind = K::dropout, .rate = 0.3},
                   {.kind = K::dense, .units = 12},
                   {.kind = K::layer_norm},
                   {.kind = K::relu},
                   {.kind = K::dense, .units = 4}}},
       {2, 15, 13}},
      {"blocks of a residual network, one with a projection",
       {.layers =
            {{.kind = K::conv2d, .units = 8, .kernel = 3, .padding = 1},
             {.kind = K::group_norm, .groups = 4},
             {.kind = K::relu},
             {.kind = K::residual,
              .layers = {{.kind = K::conv2d, .units = 8, .kernel = 3, .padding = 1},
                         {.kind = K::group_norm, .groups = 4},
                         {.kind = K::relu},
                         {.kind = K::conv2d, .units = 8, .kernel = 3, .padding = 1},
                         {.kind = K::group_norm, .groups = 4}}},
             {.kind = K::relu},
             {.kind = K::residual,
              .layers = {{.kind = K::conv2d, .units = 16, .kernel = 3, .stride = 2, .padding = 1},
                         {.kind = K::group_norm, .groups = 4},
                         {.kind = K::relu},
                         {.kind = K::conv2d, .units = 16, .kernel = 3, .padding = 1},
                         {.kind = K::group_norm, .groups = 4}},
              .shortcut = {{.kind = K::conv2d, .units = 16, .kernel = 1, .stride = 2},
                           {.kind = K::group_norm, .groups = 4}}},
             {.kind = K::relu},
             {.kind = K::avg_pool, .kernel = 4},
             {.kind = K::dense, .units = 5}}},
       {3, 8, 8}},
      {"ends in a pool",
       {.layers = {{.kind = K::conv2d, .units = 8, .kernel = 3},
                   {.kind = K::max_pool, .kernel = 2}}},
       {1, 8, 8}},
      {"a pool that does not reach the last row and column",
       {.layers = {{.kind = K::conv2d, .units = 18, .kernel = 3},
                   {.kind = K::relu},
                   {.kind = K::conv2d, .units = 20, .kernel = 3, .padding = 1},
                   {.kind = K::relu},
                   {.kind = K::max_pool, .kernel = 2},
                   {.kind = K::dense, .units = 4}}},
       {2, 15, 13}},
      {"pools whose windows overlap, then lie apart",
       {.layers = {{.kind = K::conv2d, .units = 18, .kernel = 3},
                   {.kind = K::relu},
                   {.kind = K::max_pool, .kernel = 3, .stride = 2},
                   {.kind = K::conv2d, .units = 5, .kernel = 3, .padding = 1},
                   {.kind = K::relu},
                   {.kind = K::max_pool, .kernel = 1, .stride = 2},
                   {.kind = K::dense, .units = 4}}},
       {3, 17, 15}},
      {"flat first", {.layers = {{.kind = K::flatten}, {.kind = K::dense, .units = 3}}}, {1, 4, 4}},
  };
}

}  // namespace

TEST_CASE("a dense layer's factors are what its gradient is the product of") {
  const auto [spec, in] = GENERATE(table<ModelSpec, SampleShape>(
      {{mlp({64, 32}, 10), {784, 1, 1}},
       {{.layers = {{.kind = LayerKind::conv2d, .units = 6, .kernel = 3},
                    {.kind = LayerKind::relu},
                    {.kind = LayerKind::flatten},
                    {.kind = LayerKind::dense, .units = 40},
                    {.kind = LayerKind::tanh},
                    {.kind = LayerKind::dense, .units = 3}}},
        {2, 9, 8}},
       {{.layers = {{.kind = LayerKind::dense, .units = 30, .per_position = true},
                    {.kind = LayerKind::layer_norm, .per_position = true},
                    {.kind = LayerKind::flatten},
                    {.kind = LayerKind::dense, .units = 20}}},
        {2, 1, 25}}}));
  constexpr std::size_t batch = 2;
  Problems problems;
  const ModelPlan plan = plan_model(spec, in, problems);
  REQUIRE(problems.empty());
  const Model model(spec, in, batch);
  std::vector<DenseWeights> dense = model.dense_weights();
  REQUIRE(dense.size() >= 2);
  // The last layer has only three outputs, so its factors are larger than its gradient. It
  // therefore writes the gradient itself.
  std::erase_if(dense, [](const DenseWeights& weights) {
    return batch * weights.rows * (weights.outputs + weights.inputs) >
           weights.outputs * weights.inputs;
  });
  Rng rng(5);
  std::vector<float> parameters(plan.layout.size());
  model.initialise(parameters, rng);
  const auto inputs = normals<float>(batch * elements(in), rng);
  const auto d_outputs = normals<float>(batch * plan.outputs, rng);
  auto fast = make_onednn_network(plan, batch);
  for (auto* network : {make_plain_network<float>(plan, batch).release(), fast.release()}) {
    const std::unique_ptr<Network<float>> owned(network);
    if (!owned) continue;  // Null in a build without oneDNN.
    Rng same(9);
    owned->forward(parameters, inputs, true, same);
    const auto multiplied = multiplied_gradient(*owned, plan, dense, batch, parameters, d_outputs);
    owned->give_factors({});
    std::vector<float> whole(plan.layout.size());
    owned->forward(parameters, inputs, true, same);
    owned->backward(parameters, d_outputs, whole);
    // Products of a few rows are summed in a different order.
    CHECK(relative_difference(multiplied, whole) < 1e-6);
  }
}

TEST_CASE("squared loss is half the squared distance and its gradient the difference") {
  const std::vector<double> outputs{1, 2, 3, 4};
  const std::vector<double> targets{0, 2, 5, 4};
  std::vector<double> gradient(4);
  CHECK(squared_loss<double>(outputs, targets, 2, gradient).loss == Approx(2.5));
  CHECK(gradient == std::vector<double>{0.5, 0, -1, 0});
}

TEST_CASE("oneDNN computes what the plain layers compute") {
  std::vector<NamedModel> models = models_of_many_layers();
  for (NamedModel& model : models_with_branches()) models.push_back(std::move(model));
  for (const NamedModel& model : models) {
    INFO(model.name);
    const Both both = compare_networks(model.spec, model.in, 8);
    // Float sums of up to 10^4 terms in another order differ by about 1e-5. Winograd's transforms
    // lose one more digit.
    CHECK(both.outputs < 2e-4);
    CHECK(both.gradients < 5e-4);
  }
}

TEST_CASE("a batch smaller than the model was made for gives its own gradient") {
  const ModelSpec spec = mlp({16}, 4);
  Model whole(spec, {6, 1, 1}, 8);
  Model exact(spec, {6, 1, 1}, 3);
  std::vector<float> parameters(whole.layout().size());
  whole.initialise(parameters, Rng(2));
  Rng rng(3);
  std::vector<float> inputs(3 * 6);
  for (float& value : inputs) value = static_cast<float>(rng.normal());
  const std::vector<std::int32_t> labels{1, 3, 0};
  const Batch batch{.inputs = inputs, .labels = labels, .targets = {}, .size = 3};
  std::vector<float> a(parameters.size());
  std::vector<float> b(parameters.size());
  const Score score_a = whole.gradient(parameters, batch, a, rng);
  const Score score_b = exact.gradient(parameters, batch, b, rng);
  CHECK(score_a.loss == Approx(score_b.loss));
  CHECK(score_a.samples == 3);
  CHECK(relative_difference(a, b) < 1e-5);
}

TEST_CASE("the named models have the layers and sizes their papers say") {
  CHECK(Model(mlp({256, 128}, 10), {1, 28, 28}, 1).layout().size() == 235146);
  CHECK(Model(lenet(10), {1, 28, 28}, 1).layout().size() == 61706);
  CHECK(Model(cnn(10), {1, 28, 28}, 1).layout().size() == 320 + 18496 + 1605760 + 1290);
}

TEST_CASE("a padded pool takes no value from its padding") {
  // All values are negative, so a zero from padding would be the largest.
  Problems none;
  const ModelPlan plan = plan_model(
      {.layers = {{.kind = LayerKind::max_pool, .kernel = 3, .stride = 2, .padding = 1}}},
      {1, 3, 3}, none);
  const std::vector<float> in = {-9, -8, -7, -6, -5, -4, -3, -2, -1};
  std::vector<float> out(elements(plan.layers[0].out));
  Rng unused(0);
  make_layer<float>(plan.layers[0])->forward(nullptr, in.data(), out.data(), 1, true, unused);
  CHECK(out == std::vector<float>{-5, -4, -2, -1});
}

TEST_CASE("a concat whose layers give images of different sizes is a problem with its place") {
  const auto reason_of = [](std::vector<LayerSpec> layers) {
    const Problems found =
        problems({.layers = {{.kind = LayerKind::concat, .layers = std::move(layers)}}}, {1, 8, 8});
    REQUIRE(found.size() == 1);
    CHECK(found.front().place == "layers[0]");
    return found.front().reason;
  };
  const LayerSpec pool{.kind = LayerKind::max_pool, .kernel = 2};
  CHECK(reason_of({{.kind = LayerKind::stack}, pool}).find("1x8x8 and 1x4x4") != std::string::npos);
  CHECK(reason_of({}).find("without layers") != std::string::npos);
  const LayerSpec padded{.kind = LayerKind::max_pool, .kernel = 3, .padding = 2};
  CHECK(problems({.layers = {padded}}, {1, 8, 8}).front().reason.find("half") != std::string::npos);
}

TEST_CASE("ResNet-18 and GoogLeNet's first block written as layers have their papers' sizes") {
  using K = LayerKind;
  const auto convolution = [](std::size_t units, std::size_t kernel, std::size_t stride) {
    return LayerSpec{.kind = K::conv2d,
                     .units = units,
                     .kernel = kernel,
                     .stride = stride,
                     .padding = (kernel - 1) / 2};
  };
  const LayerSpec norm{.kind = K::batch_norm};
  const LayerSpec relu{.kind = K::relu};
  const LayerSpec pool{.kind = K::max_pool, .kernel = 3, .stride = 2, .padding = 1};
  std::vector<LayerSpec> layers = {convolution(64, 7, 2), norm, relu, pool};
  for (const std::size_t units : {64, 128, 256, 512}) {
    const std::size_t stride = units == 64 ? 1 : 2;
    LayerSpec first{
        .kind = K::residual,
        .layers = {convolution(units, 3, stride), norm, relu, convolution(units, 3, 1), norm}};
    LayerSpec second = first;
    second.layers.front().stride = 1;
    if (stride == 2) first.shortcut = {convolution(units, 1, 2), norm};
    layers.insert(layers.end(), {first, relu, second, relu});
  }
  layers.push_back({.kind = K::avg_pool, .kernel = 7});
  layers.push_back({.kind = K::dense, .units = 1000});
  Problems found;
  const ModelPlan resnet = plan_model({.layers = layers}, {3, 224, 224}, found);
  REQUIRE(found.empty());
  // The paper's 11,689,512 parameters include no biases of convolutions. Ours include biases for
  // 4,800 channels, and two running statistics of each.
  CHECK(resnet.layout.size() == 11689512 + 3 * 4800);
  const LayerSpec first_block = inception_block({64, 96, 128, 16, 32, 32});
  const ModelPlan block = plan_model({.layers = {first_block}}, {192, 28, 28}, found);
  REQUIRE(found.empty());
  CHECK(block.layers.front().out == SampleShape{256, 28, 28});
  CHECK(block.layout.size() == 163328 + 368);  // Weights, and a bias for each channel.
}

TEST_CASE("a model that does not fit its input is a problem with the layer's number") {
  const ModelSpec spec{.layers = {{.kind = LayerKind::conv2d, .units = 4, .kernel = 9}}};
  const Problems found = problems(spec, {1, 8, 8});
  REQUIRE(found.size() == 1);
  CHECK(found.front().place == "layers[0]");
  CHECK(found.front().reason.find("8x8") != std::string::npos);
}

TEST_CASE("a layer whose 2^64 weights would be counted as none is too large") {
  constexpr std::size_t kernel = std::size_t{1} << 20;
  const ModelSpec spec{.layers = {{.kind = LayerKind::conv2d,
                                   .units = std::size_t{1} << 22,
                                   .kernel = kernel,
                                   .padding = kernel / 2}}};
  const Problems found = problems(spec, {4, 1, 1});
  REQUIRE(found.size() == 1);
  CHECK(found.front().place == "layers[0]");
  CHECK(found.front().reason == "the layer is too large");
}

}  // namespace gv
