// The LSTM compared with known numbers, and its memory at the start.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/train/drawn.hpp"
#include "tests/train/dyadic.hpp"
#include "train/layers/layer.hpp"
#include "train/layers/network.hpp"
#include "train/model.hpp"

namespace gv {
namespace {

using Doubles = std::vector<double>;

ModelPlan plan_of(const ModelSpec& spec, const SampleShape& in) {
  Problems problems;
  ModelPlan plan = plan_model(spec, in, problems);
  REQUIRE(problems.empty());
  return plan;
}

Doubles piece(const Doubles& all, const TensorSlot& slot) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(slot.offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(slot.size)};
}

constexpr Dyadic input_gates{29, 5, 19, 8};
constexpr Dyadic state_gates{31, 2, 23, 16};

}  // namespace

TEST_CASE("an LSTM has the outputs and gradients of an independent computation") {
  const ModelPlan plan = plan_of({.layers = {{.kind = LayerKind::lstm, .units = 2}}}, {3, 1, 2});
  Doubles parameters = input_gates.values<double>(16);
  for (const double value : state_gates.values<double>(16)) parameters.push_back(value);
  for (const double value : dyadic_b.values<double>(8)) parameters.push_back(value);
  REQUIRE(parameters.size() == plan.layout.size());
  const Doubles x = dyadic_x.values<double>(6);
  const auto layer = make_layer<double>(plan.layers[0]);
  Doubles h(6);
  Rng unused(0);
  layer->forward(parameters.data(), x.data(), h.data(), 1, true, unused);
  CHECK(h[4] == Approx(-0.07359879283528574).epsilon(1e-12));
  CHECK(h[5] == Approx(0.051442007585810905).epsilon(1e-12));
  CHECK(checksum(h) == Approx(-0.12598489493757464).epsilon(1e-12));
  const Doubles d_h = dyadic_dy.values<double>(6);
  Doubles d_x(6);
  Doubles gradient(parameters.size(), NAN);
  layer->backward_input(parameters.data(), x.data(), h.data(), d_h.data(), d_x.data(), 1);
  layer->backward_weight(parameters.data(), x.data(), h.data(), d_h.data(), gradient.data(), 1);
  // The known numbers have six digits.
  const auto& slots = plan.layout.slots();
  CHECK(checksum(piece(gradient, slots[0])) == Approx(1.206775).margin(1e-6));
  CHECK(checksum(piece(gradient, slots[1])) == Approx(-0.061249).margin(1e-6));
  CHECK(checksum(piece(gradient, slots[2])) == Approx(3.85845).margin(1e-5));
  CHECK(checksum(d_x) == Approx(-1.378306).margin(1e-6));
}

TEST_CASE("an LSTM in float is the one in double and samples do not mix") {
  const ModelSpec spec{
      .layers = {{.kind = LayerKind::lstm, .units = 19}, {.kind = LayerKind::lstm, .units = 5}}};
  const SampleShape in{11, 1, 7};
  constexpr std::size_t batch = 3;
  const ModelPlan plan = plan_of(spec, in);
  auto fast = make_onednn_network(plan, batch);
  if (!fast) fast = make_plain_network<float>(plan, batch);
  const auto exact = make_plain_network<double>(plan, batch);
  const auto alone = make_plain_network<double>(plan, 1);
  Rng rng(5);
  std::vector<float> parameters(plan.layout.size());
  Model(spec, in, batch).initialise(parameters, rng);
  const auto x = normals<float>(batch * elements(in), rng);
  const auto d_y = normals<float>(batch * plan.outputs, rng);
  const Doubles same(parameters.begin(), parameters.end());
  const Doubles same_x(x.begin(), x.end());
  const Doubles same_d_y(d_y.begin(), d_y.end());
  const auto y = fast->forward(parameters, x, true, rng);
  const auto exact_y = exact->forward(same, same_x, true, rng);
  // Logistic functions in float have an error of 2e-7, and the states add up the errors of ten
  // positions.
  for (std::size_t i = 0; i < y.size(); ++i) {
    CHECK(static_cast<double>(y[i]) == Approx(exact_y[i]).margin(1e-5));
  }
  std::vector<float> gradient(parameters.size(), NAN);
  Doubles exact_gradient(parameters.size(), NAN);
  fast->backward(parameters, d_y, gradient);
  exact->backward(same, same_d_y, exact_gradient);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    CHECK(static_cast<double>(gradient[i]) == Approx(exact_gradient[i]).epsilon(1e-3).margin(1e-4));
  }
  const auto second =
      alone->forward(same, std::span(same_x).subspan(elements(in), elements(in)), true, rng);
  for (std::size_t i = 0; i < plan.outputs; ++i) {
    CHECK(second[i] == Approx(exact_y[plan.outputs + i]).epsilon(1e-12));
  }
}

TEST_CASE("an LSTM begins with open forget gates and weights that suit its width") {
  const ModelSpec spec{.layers = {{.kind = LayerKind::lstm, .units = 16}}};
  const Model model(spec, {4, 1, 8}, 1);
  std::vector<float> parameters(model.layout().size());
  model.initialise(parameters, Rng(3));
  for (const TensorSlot& slot : model.layout().slots()) {
    for (std::size_t i = 0; i < slot.size; ++i) {
      const float value = parameters[slot.offset + i];
      if (slot.name != "lstm1.gate_biases") {
        CHECK(std::abs(value) <= 0.25F);
      } else {
        CHECK(value == (i / 16 == 1 ? 1.0F : 0.0F));
      }
    }
  }
}

TEST_CASE("an LSTM that does not fit its input is a problem with its place") {
  const auto reason_of = [](LayerSpec layer, SampleShape in) {
    const Problems found = problems({.layers = {std::move(layer)}}, in);
    REQUIRE(found.size() == 1);
    CHECK(found.front().place == "layers[0]");
    return found.front().reason;
  };
  CHECK(reason_of({.kind = LayerKind::lstm, .units = 4}, {3, 4, 4}).find("sequence") !=
        std::string::npos);
  CHECK(reason_of({.kind = LayerKind::lstm}, {3, 1, 4}).find("units") != std::string::npos);
}

}  // namespace gv
