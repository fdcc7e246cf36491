// A backward pass in two halves, sliced models and several batches in flight give the same bits.
#include "train/layers/network.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "tests/train/drawn.hpp"

namespace gv {
namespace {

template <class T>
using Make = std::function<std::unique_ptr<Network<T>>(const ModelPlan&)>;

constexpr std::size_t batch = 3;

struct Named {
  std::string name;
  ModelSpec spec;
  SampleShape in;
};

std::vector<Named> named_models() {
  return {{"mlp", mlp({12, 8}, 5), {20, 1, 1}},
          {"lenet", lenet(10), {1, 28, 28}},
          {"cnn", cnn(10), {1, 12, 12}},
          {"cnn on colour", cnn(10), {3, 12, 12}},
          {"transformer",
           transformer({.blocks = 2, .width = 8, .heads = 2, .tied = false}, 11),
           {6, 1, 1}}};
}

/// A model around each kind of layer, with layers without parameters before and after it.
std::vector<Named> a_model_of_each_kind() {
  using K = LayerKind;
  const std::vector<std::pair<std::string, LayerSpec>> kinds = {
      {"dense", {.kind = K::dense, .units = 5}},
      {"conv2d", {.kind = K::conv2d, .units = 4, .kernel = 3, .padding = 1}},
      {"max_pool", {.kind = K::max_pool, .kernel = 2}},
      {"avg_pool", {.kind = K::avg_pool, .kernel = 2}},
      {"flatten", {.kind = K::flatten}},
      {"relu", {.kind = K::relu}},
      {"tanh", {.kind = K::tanh}},
      {"gelu", {.kind = K::gelu}},
      {"dropout", {.kind = K::dropout, .rate = 0.4}},
      {"layer_norm", {.kind = K::layer_norm}},
      {"group_norm", {.kind = K::group_norm, .groups = 2}},
      {"dense per position", {.kind = K::dense, .units = 5, .per_position = true}},
      {"layer_norm per position", {.kind = K::layer_norm, .per_position = true}},
      {"residual",
       {.kind = K::residual,
        .layers = {{.kind = K::dropout, .rate = 0.2},
                   {.kind = K::group_norm, .groups = 2},
                   {.kind = K::conv2d, .units = 4, .kernel = 1},
                   {.kind = K::relu},
                   {.kind = K::conv2d, .units = 2, .kernel = 1}}}},
      {"residual with a projection",
       {.kind = K::residual,
        .layers = {{.kind = K::dropout, .rate = 0.2},
                   {.kind = K::conv2d, .units = 3, .kernel = 3, .padding = 1},
                   {.kind = K::relu}},
        .shortcut = {{.kind = K::conv2d, .units = 3, .kernel = 1},
                     {.kind = K::dropout, .rate = 0.3}}}}};
  std::vector<Named> models;
  for (const auto& [name, layer] : kinds) {
    models.push_back(
        {name + " first", {.layers = {layer, {.kind = K::dense, .units = 4}}}, {2, 6, 4}});
    models.push_back({name + " inside",
                      {.layers = {{.kind = K::avg_pool, .kernel = 1},
                                  {.kind = K::conv2d, .units = 2, .kernel = 3},
                                  layer,
                                  {.kind = K::relu},
                                  {.kind = K::dense, .units = 4},
                                  {.kind = K::tanh}}},
                      {2, 8, 6}});
  }
  const LayerSpec residual{.kind = K::residual,
                           .layers = {{.kind = K::layer_norm, .per_position = true},
                                      {.kind = K::attention, .heads = 2}}};
  models.push_back({"residual attention first",
                    {.layers = {residual, residual, {.kind = K::dense, .units = 3}}},
                    {5, 1, 8}});
  models.push_back({"tied transformer",
                    transformer({.blocks = 1, .width = 8, .heads = 4, .tied = true}, 9),
                    {7, 1, 1}});
  return models;
}

ModelPlan plan_of(const Named& model) {
  Problems problems;
  ModelPlan plan = plan_model(model.spec, model.in, problems);
  REQUIRE(problems.empty());
  return plan;
}

template <class T>
std::vector<T> copy(std::span<const T> values) {
  return {values.begin(), values.end()};
}

/// All results of a network for one batch.
template <class T>
struct Pass {
  std::vector<T> outputs, d_inputs, gradient;
  friend bool operator==(const Pass&, const Pass&) = default;
};

/// The input of a network.
template <class T>
struct Given {
  Given(const ModelPlan& plan, std::uint64_t seed) {
    Rng rng(seed);
    parameters = normals<T>(plan.layout.size(), rng);
    for (T& value : parameters) value /= 4;
    inputs = normals<T>(batch * elements(plan.in), rng);
    if (const LayerSpec& first = plan.layers.front().spec; first.kind == LayerKind::embedding) {
      for (T& id : inputs) id = static_cast<T>(rng.below(first.vocabulary));
    }
    d_outputs = normals<T>(batch * plan.outputs, rng);
  }
  std::vector<T> parameters, inputs, d_outputs;
};

template <class T>
Pass<T> joint_pass(Network<T>& network, const Given<T>& given, bool want_d_inputs = true) {
  Pass<T> pass;
  Rng rng(7);
  pass.outputs = copy(network.forward(given.parameters, given.inputs, true, rng));
  pass.gradient.assign(given.parameters.size(), T(99));
  pass.d_inputs =
      copy(network.backward(given.parameters, given.d_outputs, pass.gradient, {}, want_d_inputs));
  return pass;
}

template <class T>
Pass<T> split_pass(Network<T>& network, const Given<T>& given, bool want_d_inputs = true) {
  Pass<T> pass;
  Rng rng(7);
  pass.outputs = copy(network.forward(given.parameters, given.inputs, true, rng));
  pass.d_inputs = copy(network.backward_input(given.parameters, given.d_outputs, want_d_inputs));
  pass.gradient.assign(given.parameters.size(), T(99));
  network.backward_weight(given.parameters, pass.gradient);
  return pass;
}

/// All results for one batch from several networks, one for each slice between `cuts`. Each network
/// has its piece of the parameters.
template <class T>
Pass<T> sliced_pass(const Make<T>& make, const ModelPlan& plan, const Given<T>& given,
                    const std::vector<std::size_t>& cuts) {
  struct Stage {
    ModelPlan plan;
    std::unique_ptr<Network<T>> network;
    std::vector<T> parameters, inputs, gradient;
  };
  std::vector<Stage> stages;
  Pass<T> pass;
  Rng rng(7);
  std::vector<T> between = given.inputs;
  std::size_t offset = 0;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    Stage& stage = stages.emplace_back();
    stage.plan = slice(plan, cuts[i], cuts[i + 1]);
    stage.network = make(stage.plan);
    const std::size_t size = stage.plan.layout.size();
    stage.parameters = copy(std::span(given.parameters).subspan(offset, size));
    stage.gradient.assign(size, T(99));
    stage.inputs = between;
    offset += size;
    between = copy(stage.network->forward(stage.parameters, stage.inputs, true, rng));
  }
  REQUIRE(offset == given.parameters.size());
  pass.outputs = between;
  between = given.d_outputs;
  for (std::size_t i = stages.size(); i-- > 0;) {
    Stage& stage = stages[i];
    between = copy(stage.network->backward(stage.parameters, between, stage.gradient, {}, true));
    pass.gradient.insert(pass.gradient.begin(), stage.gradient.begin(), stage.gradient.end());
  }
  pass.d_inputs = between;
  return pass;
}

/// Runs `test` with each implementation of networks.
template <class Test>
void with_each_network(Test test) {
  test(Make<double>([](const ModelPlan& plan) { return make_plain_network<double>(plan, batch); }));
  test(Make<float>([](const ModelPlan& plan) { return make_plain_network<float>(plan, batch); }));
  test(Make<float>([](const ModelPlan& plan) {
    auto network = make_onednn_network(plan, batch);
    return network ? std::move(network) : make_plain_network<float>(plan, batch);
  }));
}

template <class T>
Given<T> given_for(const Make<T>&, const ModelPlan& plan, std::uint64_t seed) {
  return Given<T>(plan, seed);
}

}  // namespace

TEST_CASE("backward in two halves gives the bits of backward in one for every kind of layer") {
  for (const Named& model : a_model_of_each_kind()) {
    INFO(model.name);
    const ModelPlan plan = plan_of(model);
    with_each_network([&](const auto& make) {
      const auto given = given_for(make, plan, 3);
      const auto joint = joint_pass(*make(plan), given);
      CHECK(joint == split_pass(*make(plan), given));
      const auto without = split_pass(*make(plan), given, false);
      CHECK(without.gradient == joint.gradient);
      CHECK(without.d_inputs.empty());
      CHECK(joint_pass(*make(plan), given, false) == without);
    });
  }
}

TEST_CASE("slices one after the other give the bits of the whole wherever it is cut") {
  for (const Named& model : named_models()) {
    const ModelPlan plan = plan_of(model);
    with_each_network([&](const auto& make) {
      const auto given = given_for(make, plan, 4);
      const auto whole = joint_pass(*make(plan), given);
      std::vector<std::size_t> everywhere = {0};
      for (std::size_t cut = 1; cut < plan.layers.size(); ++cut) {
        INFO(model.name << " cut before layer " << cut);
        CHECK(whole == sliced_pass(make, plan, given, {0, cut, plan.layers.size()}));
        everywhere.push_back(cut);
      }
      everywhere.push_back(plan.layers.size());
      INFO(model.name << " cut everywhere");
      CHECK(whole == sliced_pass(make, plan, given, everywhere));
    });
  }
}

TEST_CASE("a slice's tensors keep their names and begin at 0") {
  const ModelPlan plan = plan_of(named_models().at(1));
  const ModelPlan part = slice(plan, 3, 8);
  REQUIRE(part.layout.slots().size() == 4);
  CHECK(part.layout.slots()[0] == TensorSlot{"conv2.weight", {16, 6, 5, 5}, 0, 2400});
  CHECK(part.layout.slots()[2].name == "dense1.weight");
  CHECK(part.layout.slots()[2].offset == 2416);
  CHECK(part.layers.front().weight == 0);
  CHECK(part.layers[3].weight == 2416);
  CHECK(part.layers[3].bias == part.layout.size() - 120);
  CHECK(part.in == plan.layers[3].in);
  CHECK(part.outputs == 120);
}

TEST_CASE("the input's gradient passes leading layers without parameters") {
  const Named model{"pool first",
                    {.layers = {{.kind = LayerKind::avg_pool, .kernel = 2},
                                {.kind = LayerKind::flatten},
                                {.kind = LayerKind::tanh},
                                {.kind = LayerKind::dense, .units = 2}}},
                    {1, 4, 4}};
  const ModelPlan plan = plan_of(model);
  with_each_network([&](const auto& make) {
    const auto given = given_for(make, plan, 5);
    const auto pass = joint_pass(*make(plan), given);
    REQUIRE(pass.d_inputs.size() == batch * 16);
    // Each of the four inputs in a window gets a quarter of the pooled value's gradient.
    CHECK(pass.d_inputs[0] != 0);
    CHECK(pass.d_inputs[0] == pass.d_inputs[5]);
    CHECK(pass.d_inputs[0] != pass.d_inputs[2]);
  });
}

TEST_CASE("batches in flight at once do not disturb each other") {
  std::vector<Named> models = named_models();
  models.push_back(a_model_of_each_kind().at(17));
  for (const Named& model : models) {
    INFO(model.name);
    const ModelPlan plan = plan_of(model);
    with_each_network([&](const auto& make) {
      const auto a = given_for(make, plan, 5);
      const auto b = given_for(make, plan, 6);
      auto alone_a = joint_pass(*make(plan), a);
      auto alone_b = joint_pass(*make(plan), b);
      const auto first = make(plan);
      const auto second = make(plan);
      auto pass_a = decltype(alone_a)();
      auto pass_b = decltype(alone_b)();
      Rng rng_a(7);
      Rng rng_b(7);
      pass_a.gradient.resize(a.parameters.size());
      pass_b.gradient.resize(b.parameters.size());
      const auto outputs_a = first->forward(a.parameters, a.inputs, true, rng_a);
      const auto outputs_b = second->forward(b.parameters, b.inputs, true, rng_b);
      pass_a.outputs = copy(outputs_a);
      pass_b.outputs = copy(outputs_b);
      const auto d_inputs_a = first->backward_input(a.parameters, a.d_outputs, true);
      const auto d_inputs_b = second->backward_input(b.parameters, b.d_outputs, true);
      first->backward_weight(a.parameters, pass_a.gradient);
      second->backward_weight(b.parameters, pass_b.gradient);
      pass_a.d_inputs = copy(d_inputs_a);
      pass_b.d_inputs = copy(d_inputs_b);
      CHECK(pass_a == alone_a);
      CHECK(pass_b == alone_b);
    });
  }
}

TEST_CASE("the weight half tells of the same ready ranges as backward in one") {
  const ModelPlan plan = plan_of(named_models().at(2));
  with_each_network([&](const auto& make) {
    using Ranges = std::vector<std::pair<std::size_t, std::size_t>>;
    const auto given = given_for(make, plan, 5);
    auto gradient = given.parameters;
    const auto network = make(plan);
    Ranges joint;
    Ranges split;
    Rng rng(1);
    const auto note_in = [](Ranges& ranges) {
      return [&ranges](std::size_t begin, std::size_t end) { ranges.emplace_back(begin, end); };
    };
    network->forward(given.parameters, given.inputs, true, rng);
    network->backward(given.parameters, given.d_outputs, gradient, note_in(joint));
    network->forward(given.parameters, given.inputs, true, rng);
    network->backward_input(given.parameters, given.d_outputs, false);
    network->backward_weight(given.parameters, gradient, note_in(split));
    CHECK(joint.size() == 4);
    CHECK(split == joint);
  });
}

}  // namespace gv
