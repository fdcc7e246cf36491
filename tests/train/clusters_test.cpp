// k-means as a layer: Lloyd's steps, mini-batches, and sums and counts of several peers.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "train/data/generated.hpp"
#include "train/evaluation.hpp"
#include "train/model.hpp"

namespace gv {
namespace {

using Floats = std::vector<float>;

constexpr std::size_t k = 2;
constexpr std::size_t width = 2;
/// Two corners, each with three points.
const Floats corners = {0, 0, 0, 1, 1, 0, 8, 8, 8, 9, 9, 8};

ModelSpec clusters(std::size_t centres) {
  return {.layers = {{.kind = LayerKind::clusters, .units = centres}},
          .loss = LossKind::reconstruction};
}

Batch batch_of(std::span<const float> points) {
  return {.inputs = points, .labels = {}, .targets = {}, .size = points.size() / width};
}

/// Parameters whose first centres are `centres`, each with a count of one.
Floats centred(Floats centres) {
  centres.insert(centres.end(), centres.size() / width, 1.0F);
  return centres;
}

/// Centre j of parameters with k centres.
std::array<float, width> centre(const Floats& parameters, std::size_t j) {
  const float count = parameters[k * width + j];
  return {parameters[j * width] / count, parameters[j * width + 1] / count};
}

/// Takes one step of plain descent. Returns the sum of the squared distances before the step.
double step(Model& model, Floats& parameters, std::span<const float> points, float rate) {
  Floats gradient(parameters.size());
  Rng rng(1);
  const Score score = model.gradient(parameters, batch_of(points), gradient, rng);
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= rate * gradient[i];
  return 2 * score.loss;
}

}  // namespace

TEST_CASE("descent with a rate of one is Lloyd's k-means") {
  Model model(clusters(k), {width, 1, 1}, 6);
  Floats parameters = centred({0, 0, 0, 1});
  CHECK(step(model, parameters, corners, 1) == Approx(372));
  CHECK(step(model, parameters, corners, 1) == Approx(26.1875));
  for (int i = 0; i < 3; ++i) {
    CHECK(step(model, parameters, corners, 1) == Approx(8.0 / 3));
    CHECK(centre(parameters, 0)[0] == Approx(1.0 / 3));
    CHECK(centre(parameters, 0)[1] == Approx(1.0 / 3));
    CHECK(centre(parameters, 1)[0] == Approx(25.0 / 3));
    CHECK(centre(parameters, 1)[1] == Approx(25.0 / 3));
  }
}

TEST_CASE("inertia never rises in Lloyd's steps") {
  const DataSet data = generate_blobs({.samples = 500, .features = 4, .classes = 6, .seed = 2}, 0);
  Model model(clusters(6), data.shape, 500);
  Floats parameters(model.layout().size());
  model.initialise(parameters, Rng(3));
  Floats gradient(parameters.size());
  Rng rng(1);
  const Batch all{.inputs = data.floats, .labels = data.labels, .targets = {}, .size = 500};
  double before = std::numeric_limits<double>::infinity();
  double first = 0;
  for (int i = 0; i < 30; ++i) {
    const double now = model.gradient(parameters, all, gradient, rng).loss;
    CHECK(now <= before * (1 + 1e-5));  // The margin allows for distances in float.
    before = now;
    if (i == 0) first = now;
    for (std::size_t j = 0; j < parameters.size(); ++j) parameters[j] -= gradient[j];
  }
  CHECK(before < 0.8 * first);
  // The generator's noise has variance 1 in each of four numbers. The loss is half of the sum of
  // their squares, which is 2 for each sample.
  CHECK(before / 500 < 2.6);
}

TEST_CASE("rates of one over t are mini-batch k-means with counts") {
  Model model(clusters(k), {width, 1, 1}, 2);
  Floats parameters = centred({0, 0, 8, 8});
  // The first step, with rate 1, discards the initial centres. All later steps give every batch the
  // same weight.
  step(model, parameters, Floats{0, 1, 8, 9}, 1);
  step(model, parameters, Floats{1, 0, 9, 8}, 0.5F);
  CHECK(centre(parameters, 0) == std::array{0.5F, 0.5F});
  CHECK(centre(parameters, 1) == std::array{8.5F, 8.5F});
}

TEST_CASE("the mean gradient of peers makes the centres of all their samples") {
  Model model(clusters(k), {width, 1, 1}, 6);
  const Floats start = centred({0, 0, 9, 9});
  Floats whole = start;
  step(model, whole, corners, 1);
  // The two peers have one and five samples, which are their weights.
  Floats both(start.size());
  Floats gradient(start.size());
  Rng rng(1);
  using Part = std::pair<std::size_t, std::size_t>;
  for (const auto& [begin, count] : {Part{0, 1}, Part{1, 5}}) {
    const auto points = std::span(corners).subspan(begin * width, count * width);
    model.gradient(start, batch_of(points), gradient, rng);
    for (std::size_t i = 0; i < both.size(); ++i) {
      both[i] += static_cast<float>(count) / 6 * (start[i] - gradient[i]);
    }
  }
  for (std::size_t j = 0; j < k; ++j) {
    CHECK(centre(both, j)[0] == Approx(centre(whole, j)[0]));
    CHECK(centre(both, j)[1] == Approx(centre(whole, j)[1]));
  }
}

TEST_CASE("a mean of sums and counts weighs centres by their samples") {
  // One sample with a sum of 10 and nine with a sum of 30 have a centre of 4. The mean of the two
  // centres would be 6.67.
  Model model(clusters(1), {1, 1, 1}, 1);
  const Floats mixed = {(10.0F + 30.0F) / 2, (1.0F + 9.0F) / 2};
  const Floats input = {4};
  const Batch batch{.inputs = input, .labels = {}, .targets = {}, .size = 1};
  CHECK(model.evaluate(mixed, batch).loss == 0);
}

TEST_CASE("a centre without samples keeps its place and one without a count is nowhere") {
  Model model(clusters(k), {width, 1, 1}, 6);
  Floats parameters = centred({0, 0, 100, 100});
  // The sums and the count of a centre without samples halve in each step.
  for (int i = 0; i < 1000; ++i) step(model, parameters, corners, 0.5F);
  CHECK(centre(parameters, 1)[0] == Approx(100));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (i == 2 || i == 3 || i == 5) parameters[i] = 0;
  }
  CHECK(std::isfinite(step(model, parameters, corners, 0.5F)));
}

TEST_CASE("the score of a reconstruction is the part of the inputs' scatter that it explains") {
  DataSet data;
  data.shape = {width, 1, 1};
  data.classes = 2;
  data.labels = {0, 0, 0, 1, 1, 1};
  data.floats = corners;
  Model model(clusters(k), data.shape, evaluation_batch(data));
  const Floats parameters = centred({1.0F / 3, 1.0F / 3, 25.0F / 3, 25.0F / 3});
  const Score score = evaluate(model, parameters, data);
  const Merit merit = merit_of(score, data);
  CHECK(merit.name == "r2");
  // The two means are eight apart in both numbers, which adds 6 * 16 * 2 to the scatter.
  CHECK(merit.value == Approx(1 - (8.0 / 3) / (8.0 / 3 + 192)));
}

}  // namespace gv
