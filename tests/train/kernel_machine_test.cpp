// Kernel machines by random features: the kernel, the machine compared with the dual problem, and
// several machines that each know one cluster.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "tests/train/data_folder.hpp"
#include "train/checkpoint/safetensors.hpp"
#include "train/data/centres.hpp"
#include "train/data/generated.hpp"
#include "train/data/partition.hpp"
#include "train/evaluation.hpp"
#include "train/layers/layer.hpp"
#include "train/model.hpp"

namespace gv {
namespace {

using Floats = std::vector<float>;
using Square = std::vector<std::vector<double>>;

ModelSpec machine(std::size_t features, double gamma, std::size_t classes) {
  return {.layers = {{.kind = LayerKind::kernel_features, .units = features, .gamma = gamma},
                     {.kind = LayerKind::dense, .units = classes}},
          .loss = LossKind::hinge};
}

/// The exclusive or of two numbers, with some noise: no line divides the classes.
const Floats points = {0, 0, 1, 1, 0, 1, 1, 0, .2F, .1F, .9F, .8F, .1F, .9F, .8F, .2F};
const std::vector<std::int32_t> labels = {1, 1, 0, 0, 1, 1, 0, 0};
constexpr std::size_t count = 8;
constexpr double gamma_of_all = 1;
constexpr double cost = 10;  ///< The cost C of a sample on the wrong side.

double side(std::size_t i) { return labels[i] == 1 ? 1 : -1; }

double kernel(const float* a, const float* b) {
  const double x = static_cast<double>(a[0]) - static_cast<double>(b[0]);
  const double y = static_cast<double>(a[1]) - static_cast<double>(b[1]);
  return std::exp(-gamma_of_all * (x * x + y * y));
}

/// The features of points, with the shape (points, features).
std::vector<Floats> features_of(const Floats& at, std::size_t features) {
  Problems unsound;
  const LayerSpec spec{
      .kind = LayerKind::kernel_features, .units = features, .gamma = gamma_of_all};
  const ModelPlan plan =
      plan_model({.layers = {spec, {.kind = LayerKind::dense, .units = 1}}}, {2, 1, 1}, unsound);
  REQUIRE(unsound.empty());
  const std::size_t rows = at.size() / 2;
  Floats outputs(rows * features);
  Rng rng(1);
  make_layer<float>(plan.layers.front())
      ->forward(nullptr, at.data(), outputs.data(), rows, false, rng);
  std::vector<Floats> result;
  for (std::size_t i = 0; i < rows; ++i) {
    const auto begin = outputs.begin() + static_cast<std::ptrdiff_t>(i * features);
    result.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(features));
  }
  return result;
}

double product(const Floats& a, const Floats& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

/// The exact machine, which maximises sum a - 1/2 a Q a for 0 <= a <= C, one coordinate after
/// another. Q contains the kernels, with a minus for points of different classes.
struct Exact {
  std::vector<double> alpha = std::vector<double>(count);
  double optimum = 0;
};

Exact solve(const Square& kernels) {
  Exact exact;
  const auto slope = [&](std::size_t i) {
    double sum = -1;
    for (std::size_t j = 0; j < count; ++j) {
      sum += side(i) * side(j) * kernels[i][j] * exact.alpha[j];
    }
    return sum;
  };
  for (int sweep = 0; sweep < 20000; ++sweep) {
    for (std::size_t i = 0; i < count; ++i) {
      exact.alpha[i] = std::clamp(exact.alpha[i] - slope(i) / kernels[i][i], 0.0, cost);
    }
  }
  for (std::size_t i = 0; i < count; ++i) exact.optimum += exact.alpha[i] * (1 - slope(i)) / 2;
  return exact;
}

}  // namespace

TEST_CASE("products of features are the kernel up to their number") {
  constexpr std::size_t features = 4096;
  const std::vector<Floats> rows = features_of(points, features);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < count; ++j) {
      // A product is the mean of 2048 cosines, each with a standard deviation of at most 1 /
      // sqrt(2).
      const double allowed = i == j ? 1e-5 : 4 * std::sqrt(0.5 / (features / 2.0));
      CHECK(std::abs(product(rows[i], rows[j]) - kernel(&points[2 * i], &points[2 * j])) < allowed);
    }
  }
  CHECK(features_of(points, features) == rows);
}

TEST_CASE("descent on hinge loss of features is the kernel machine of the dual problem") {
  // With the exact kernel the solution is known. This checks the solver.
  Square kernels(count, std::vector<double>(count));
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < count; ++j) kernels[i][j] = kernel(&points[2 * i], &points[2 * j]);
  }
  const Exact exact = solve(kernels);
  CHECK(exact.optimum == Approx(14.3314955747).epsilon(1e-6));
  const std::array<double, 4> known = {7.229368, 7.229368, 5.149937, 9.054318};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(exact.alpha[i] == Approx(0).margin(1e-6));
    CHECK(exact.alpha[4 + i] == Approx(known[i]).epsilon(1e-5));
  }
  const Floats there = {.3F, .2F};
  double answer = 0;
  for (std::size_t i = 0; i < count; ++i) {
    answer += exact.alpha[i] * side(i) * kernel(&points[2 * i], there.data());
  }
  CHECK(answer == Approx(0.5223408434).epsilon(1e-5));

  // With the kernel of the features, descent reaches the machine that the solver finds.
  constexpr std::size_t features = 512;
  const std::vector<Floats> rows = features_of(points, features);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < count; ++j) kernels[i][j] = product(rows[i], rows[j]);
  }
  const Exact wanted = solve(kernels);
  Model model(machine(features, gamma_of_all, 2), {2, 1, 1}, count);
  Floats parameters(model.layout().size());
  Floats gradient(parameters.size());
  Rng rng(1);
  const Batch all{.inputs = points, .labels = labels, .targets = {}, .size = count};
  // The model has two opposite rows of weights. Their difference w minimises |w|^2 / (2 C n) + the
  // mean loss. So each row has a decay of 2 / (C n), and Pegasos takes steps of 1 / (decay t).
  constexpr double decay = 2 / (cost * count);
  for (int t = 1; t <= 20000; ++t) {
    model.gradient(parameters, all, gradient, rng);
    for (std::size_t i = 0; i < 2 * features; ++i) {  // The machine has no biases.
      parameters[i] -= static_cast<float>((gradient[i] + decay * parameters[i]) / (decay * t));
    }
  }
  double squares = 0;
  for (std::size_t i = 0; i < features; ++i) {
    squares += std::pow(parameters[features + i] - parameters[i], 2);
  }
  const double objective = squares / 2 + cost * model.evaluate(parameters, all).loss;
  // The error that remains after t steps is proportional to 1 / t. Here it is a thousandth.
  CHECK(objective > wanted.optimum * (1 - 1e-3));
  CHECK(objective < wanted.optimum * (1 + 2e-3));
  const auto outputs =
      model.predict(parameters, {.inputs = there, .labels = {}, .targets = {}, .size = 1});
  double from_dual = 0;
  const Floats there_features = features_of(there, features).front();
  for (std::size_t i = 0; i < count; ++i) {
    from_dual += wanted.alpha[i] * side(i) * product(rows[i], there_features);
  }
  CHECK(outputs[1] - outputs[0] == Approx(from_dual).margin(0.02));
}

namespace {

/// Four classes of four blobs each in a plane, which no lines divide.
DataSet blobs(std::size_t samples, std::uint64_t stream) {
  return generate_blobs(
      {.samples = samples, .features = 2, .classes = 4, .blobs = 4, .noise = 0.3, .seed = 1},
      stream);
}

/// Trains by plain descent on these samples, in their order.
Floats trained(const ModelSpec& spec, const DataSet& data) {
  constexpr std::size_t batch = 20;
  constexpr int steps = 4000;
  Model model(spec, data.shape, batch);
  Floats parameters(model.layout().size());
  Floats gradient(parameters.size());
  Rng rng(1);
  model.initialise(parameters, rng);
  Floats inputs(batch * data.features());
  for (int step = 0; step < steps; ++step) {
    const std::size_t at = static_cast<std::size_t>(step) * batch % (data.size() - batch);
    model.gradient(parameters, read_batch(data, at, batch, inputs), gradient, rng);
    const auto rate = static_cast<float>(0.5 * (1 + std::cos(M_PI * step / steps)));
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i] -= rate * (gradient[i] + 1e-4F * parameters[i]);
    }
  }
  return parameters;
}

double accuracy(const ModelSpec& spec, const Floats& parameters, const DataSet& test) {
  Model model(spec, test.shape, evaluation_batch(test));
  return evaluate(model, parameters, test).accuracy();
}

/// The centres of four clusters, by Lloyd's steps.
Centres four_centres(const DataSet& data) {
  const ModelSpec spec{.layers = {{.kind = LayerKind::clusters, .units = 4}},
                       .loss = LossKind::reconstruction};
  Model model(spec, data.shape, data.size());
  Floats parameters(model.layout().size());
  Floats gradient(parameters.size());
  Rng rng(1);
  model.initialise(parameters, rng);
  const Batch all{.inputs = data.floats, .labels = data.labels, .targets = {}, .size = data.size()};
  for (int i = 0; i < 30; ++i) {
    model.gradient(parameters, all, gradient, rng);
    for (std::size_t j = 0; j < parameters.size(); ++j) parameters[j] -= gradient[j];
  }
  const DataFolder folder;
  std::vector<TensorView> tensors;
  for (const TensorSlot& slot : model.layout().slots()) {
    tensors.push_back(
        {slot.name, slot.shape, std::span(parameters).subspan(slot.offset, slot.size)});
  }
  REQUIRE(write_safetensors(folder.path("centres"), tensors, {}).empty());
  const LoadedCentres read = read_centres(folder.path("centres"));
  CHECK(read.problem.empty());
  CHECK(read.centres.size() == 4);
  return read.centres;
}

}  // namespace

TEST_CASE("machines of one cluster each answer together as one machine of all samples") {
  const DataSet data = blobs(4000, 0);
  const DataSet test = blobs(4000, 1);
  const ModelSpec spec = machine(256, 0.5, 4);
  const double whole = accuracy(spec, trained(spec, data), test);
  const Centres centres = four_centres(data);
  const auto shards = partition({.kind = PartitionKind::clusters}, data, 4, Rng(1), centres);
  std::vector<std::vector<std::uint32_t>> routed(4);
  for (std::uint32_t n = 0; n < test.size(); ++n) {
    routed[nearest(centres, std::span(test.floats).subspan(2 * n, 2))].push_back(n);
  }
  double together = 0;
  double alone = 0;
  std::size_t dealt = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    dealt += shards[i].size();
    const Floats machine_of_one = trained(spec, data.subset(shards[i]));
    const double share = static_cast<double>(routed[i].size()) / static_cast<double>(test.size());
    together += share * accuracy(spec, machine_of_one, test.subset(routed[i]));
    alone = std::max(alone, accuracy(spec, machine_of_one, test));
  }
  CHECK(dealt == data.size());
  ModelSpec lines = linear(4);
  lines.loss = LossKind::hinge;
  const double linear_accuracy = accuracy(lines, trained(lines, data), test);
  INFO("one machine " << whole << ", four " << together << ", the best of these alone " << alone
                      << ", a linear one " << linear_accuracy);
  // Three standard deviations of the difference of two counts on the test samples.
  const double margin = 3 * std::sqrt(2 * whole * (1 - whole) / static_cast<double>(test.size()));
  CHECK(together > whole - margin);
  CHECK(alone < whole - 0.2);
  CHECK(linear_accuracy < whole - 0.1);
}

TEST_CASE("the nearest centre is the first of those that are as near and still there") {
  const Centres centres{.features = 1, .values = {0, 2, 4}};
  const auto at = [&](float x, const std::vector<bool>& usable = {}) {
    return nearest(centres, std::span(&x, 1), usable);
  };
  CHECK(at(1) == 0);
  CHECK(at(1.1F) == 1);
  CHECK(at(9) == 2);
  CHECK(at(9, {true, true, false}) == 1);
  CHECK(at(1.1F, {true, false, true}) == 0);
}

TEST_CASE("a file without centres is refused with the reason") {
  const DataFolder folder;
  CHECK(!read_centres(folder.path("nothing")).problem.empty());
  const Floats sums = {1, 2, 3, 4};
  const auto problem = [&](const std::string& name, const Floats& counts) {
    const std::string file = folder.path("file");
    REQUIRE(write_safetensors(file, {{name, {2, 2}, sums}, {"clusters1.counts", {2}, counts}}, {})
                .empty());
    return read_centres(file).problem;
  };
  CHECK(problem("dense1.weight", {1, 1}) == "it is no model of k-means, whose layer is clusters");
  CHECK(problem("clusters1.sums", {1, 0}) == "centre 1 has no samples");
  CHECK(problem("clusters1.sums", {1, 2}).empty());
}

}  // namespace gv
