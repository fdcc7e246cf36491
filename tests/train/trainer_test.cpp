// A training step in two halves, gradient and update. Between them, replicas in lockstep sum their
// gradients.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/magnitude.hpp"
#include "train/built_in_learner.hpp"
#include "train/data/sampler.hpp"
#include "train/layers/network.hpp"
#include "train/model.hpp"
#include "train/optimizer.hpp"
#include "train/schedule.hpp"

namespace gv {
namespace {

using Floats = std::vector<float>;

std::shared_ptr<const DataSet> images(std::size_t count) {
  auto data = std::make_shared<DataSet>();
  data->shape = {1, 28, 28};
  data->classes = 10;
  Rng rng(1);
  for (std::size_t i = 0; i < count * 784; ++i) {
    data->bytes.push_back(static_cast<std::uint8_t>(rng.below(256)));
  }
  data->scale = 0.5f;
  for (std::size_t i = 0; i < count; ++i) {
    data->labels.push_back(static_cast<std::int32_t>(rng.below(10)));
  }
  return data;
}

/// Layers of many kinds, with layers without parameters before and after those that have some.
ModelSpec mixed() {
  using K = LayerKind;
  return {.layers = {{.kind = K::avg_pool, .kernel = 2},
                     {.kind = K::tanh},
                     {.kind = K::conv2d, .units = 8, .kernel = 3, .stride = 2},
                     {.kind = K::group_norm, .groups = 2},
                     {.kind = K::gelu},
                     {.kind = K::conv2d, .units = 16, .kernel = 3, .padding = 1},
                     {.kind = K::relu},
                     {.kind = K::max_pool, .kernel = 2},
                     {.kind = K::flatten},
                     {.kind = K::dropout, .rate = 0.3},
                     {.kind = K::dense, .units = 12},
                     {.kind = K::layer_norm},
                     {.kind = K::relu},
                     {.kind = K::dense, .units = 10},
                     {.kind = K::tanh}}};
}

const std::vector<ModelSpec> models = {mlp({32, 16}, 10), lenet(10), cnn(10), mixed()};

/// A run with this kind of optimiser, whose learning rate differs at every step.
TrainerSpec spec_of(ModelSpec model, OptimizerKind kind) {
  return {.model = std::move(model),
          .optimizer = {.kind = kind, .weight_decay = 0.01},
          .schedule = {.kind = ScheduleKind::cosine, .learning_rate = 0.01, .step_at = {}},
          .batch = 8,
          .batch_max = 16,
          .steps = 100,
          .seed = 3,
          .peer = 2};
}

constexpr auto every_kind = {OptimizerKind::sgd,      OptimizerKind::momentum,
                             OptimizerKind::nesterov, OptimizerKind::adagrad,
                             OptimizerKind::rmsprop,  OptimizerKind::adam,
                             OptimizerKind::adamw};

Floats copied(std::span<const float> values) { return {values.begin(), values.end()}; }

Floats gradient_of(const std::unique_ptr<Learner>& trainer, std::size_t samples) {
  Floats gradient(trainer->layout().size(), NAN);
  const Score score = trainer->gradient(samples, gradient);
  CHECK(score.samples == samples);
  return gradient;
}

/// Takes a step with the trainer's own gradient over `samples` samples.
void step(const std::unique_ptr<Learner>& trainer, std::size_t samples) {
  trainer->update(gradient_of(trainer, samples));
}

/// A run assembled from its parts, with batches of these sizes.
Floats trained_by_hand(const TrainerSpec& spec, const std::shared_ptr<const DataSet>& data,
                       const std::vector<std::size_t>& sizes) {
  Sampler sampler(data, spec.seed, spec.peer);
  Floats parameters;
  Floats gradient;
  std::unique_ptr<Optimizer> optimizer;
  std::uint64_t position = 0;
  for (std::uint64_t i = 0; i < sizes.size(); ++i) {
    Model model(spec.model, data->shape, sizes[i]);
    if (!optimizer) {
      parameters.resize(model.layout().size());
      gradient.resize(parameters.size());
      model.initialise(parameters, Rng(spec.seed).fork("model"));
      optimizer = std::make_unique<Optimizer>(spec.optimizer, parameters.size());
    }
    Rng rng = Rng(spec.seed).fork(spec.peer).fork("dropout").fork(i);
    model.gradient(parameters, sampler.batch(position, sizes[i]), gradient, rng);
    optimizer->step(parameters, gradient, learning_rate(spec.schedule, spec.batch, i, spec.steps));
    position = sampler.after(position, sizes[i]);
  }
  return parameters;
}

/// The arguments with which a network called `ready`, and the elements at that time.
struct Told {
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  Floats seen;
};

void check_ready(Network<float>& network, const ModelPlan& plan, std::size_t batch) {
  Rng rng(5);
  Floats parameters(plan.layout.size());
  for (float& value : parameters) value = static_cast<float>(rng.normal()) * 0.1f;
  Floats inputs(batch * elements(plan.in));
  for (float& value : inputs) value = static_cast<float>(rng.normal());
  Floats d_outputs(batch * plan.outputs);
  for (float& value : d_outputs) value = static_cast<float>(rng.normal());
  Floats silent(parameters.size(), NAN);
  Floats gradient(parameters.size(), NAN);
  Told told{.ranges = {}, .seen = Floats(parameters.size())};
  Rng same = rng;
  network.forward(parameters, inputs, true, rng);
  network.backward(parameters, d_outputs, silent);
  network.forward(parameters, inputs, true, same);
  network.backward(parameters, d_outputs, gradient, [&](std::size_t begin, std::size_t end) {
    told.ranges.emplace_back(begin, end);
    std::copy(gradient.begin() + static_cast<std::ptrdiff_t>(begin),
              gradient.begin() + static_cast<std::ptrdiff_t>(end),
              told.seen.begin() + static_cast<std::ptrdiff_t>(begin));
  });
  CHECK(gradient == silent);
  CHECK(told.seen == gradient);
  // One range for each layer with parameters, from the end to the beginning.
  std::size_t end = parameters.size();
  for (const auto& range : told.ranges) {
    CHECK(range.second == end);
    CHECK(range.first < range.second);
    end = range.first;
  }
  CHECK(end == 0);
  CHECK(told.ranges.size() ==
        static_cast<std::size_t>(std::ranges::count_if(plan.layers, &LayerPlan::has_parameters)));
}

}  // namespace

TEST_CASE("a gradient and an update are a step and both are what their parts make", "[unit]") {
  const auto data = images(30);
  for (const ModelSpec& model : models) {
    for (const OptimizerKind kind :
         {OptimizerKind::sgd, OptimizerKind::nesterov, OptimizerKind::adamw}) {
      const TrainerSpec spec = spec_of(model, kind);
      const auto whole = built_in_learner(spec, data);
      const auto halves = built_in_learner(spec, data);
      CHECK(whole->run_steps(5).samples == 40);
      for (int i = 0; i < 5; ++i) step(halves, 8);
      CHECK(copied(whole->parameters()) == copied(halves->parameters()));
      CHECK(copied(whole->parameters()) == trained_by_hand(spec, data, {8, 8, 8, 8, 8}));
      CHECK(whole->step() == halves->step());
      CHECK(whole->optimizer_state().position == halves->optimizer_state().position);
    }
  }
}

TEST_CASE("a gradient is ready from its end to its beginning without gaps", "[unit]") {
  std::vector<ModelSpec> more = models;
  more.push_back(linear(3));
  more.push_back({.layers = {{.kind = LayerKind::flatten},
                             {.kind = LayerKind::relu},
                             {.kind = LayerKind::layer_norm}}});
  more.push_back({.layers = {{.kind = LayerKind::conv2d, .units = 16, .kernel = 3},
                             {.kind = LayerKind::relu},
                             {.kind = LayerKind::max_pool, .kernel = 2}}});
  for (const ModelSpec& model : more) {
    Problems problems;
    const ModelPlan plan = plan_model(model, {1, 28, 28}, problems);
    REQUIRE(problems.empty());
    check_ready(*make_plain_network<float>(plan, 4), plan, 4);
    if (const auto fast = make_onednn_network(plan, 4)) check_ready(*fast, plan, 4);
  }
}

TEST_CASE("a trainer passes on what is ready", "[unit]") {
  const auto trainer = built_in_learner(spec_of(lenet(10), OptimizerKind::sgd), images(30));
  Floats gradient(trainer->layout().size());
  std::size_t end = gradient.size();
  trainer->gradient(8, gradient, [&](std::size_t begin, std::size_t to) {
    CHECK(to == end);
    end = begin;
  });
  CHECK(end == 0);
}

TEST_CASE("a gradient asked for again is the same and nothing has moved", "[unit]") {
  const auto trainer = built_in_learner(spec_of(mixed(), OptimizerKind::adam), images(30));
  trainer->run_steps(2);
  const Floats before = copied(trainer->parameters());
  const OptimizerState state = trainer->optimizer_state();
  const Floats first = gradient_of(trainer, 8);
  trainer->prefetch();
  gradient_of(trainer, 3);
  CHECK(gradient_of(trainer, 8) == first);
  CHECK(copied(trainer->parameters()) == before);
  CHECK(trainer->step() == 2);
  CHECK(trainer->optimizer_state().vectors == state.vectors);
  CHECK(trainer->optimizer_state().position == state.position);
}

TEST_CASE("the gradients of two half batches have the whole one's as their mean", "[unit]") {
  for (const ModelSpec& model : {mlp({32, 16}, 10), lenet(10)}) {
    TrainerSpec spec = spec_of(model, OptimizerKind::sgd);
    spec.optimizer.weight_decay = 0;
    const auto trainer = built_in_learner(spec, images(30));
    const Floats whole = gradient_of(trainer, 16);
    const Floats first = gradient_of(trainer, 8);
    // An update with a zero gradient moves only the sampler.
    trainer->update(Floats(first.size()));
    const Floats second = gradient_of(trainer, 8);
    double distance = 0;
    double length = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const double mean = (static_cast<double>(first[i]) + second[i]) / 2;
      distance += (mean - whole[i]) * (mean - whole[i]);
      length += static_cast<double>(whole[i]) * whole[i];
    }
    // Other kernels sum a few hundred floats in another order, which causes a few roundings of 6e-8
    // each.
    CHECK(std::sqrt(distance / length) < 1e-6);
  }
}

TEST_CASE("batches may be of any size up to the largest and change from step to step", "[unit]") {
  const std::vector<std::size_t> sizes = {8, 3, 8, 16, 1, 16, 3, 5, 8, 16};
  for (const ModelSpec& model : {mlp({32, 16}, 10), mixed()}) {
    for (const std::size_t samples : {30u, 10u}) {
      const TrainerSpec spec = spec_of(model, OptimizerKind::nesterov);
      const auto data = images(samples);
      const auto trainer = built_in_learner(spec, data);
      for (const std::size_t size : sizes) {
        step(trainer, size);
        trainer->prefetch();
      }
      CHECK(copied(trainer->parameters()) == trained_by_hand(spec, data, sizes));
    }
  }
}

TEST_CASE("a restored trainer goes on with the samples that come next", "[unit]") {
  const TrainerSpec spec = spec_of(mixed(), OptimizerKind::adam);
  const auto data = images(30);
  const auto first = built_in_learner(spec, data);
  for (const std::size_t size : {8u, 3u, 16u, 5u}) step(first, size);
  // These samples are drawn for an update that the checkpoint does not include.
  gradient_of(first, 4);
  const auto second = built_in_learner(spec, data);
  gradient_of(second, 9);
  REQUIRE(second->restore(first->parameters(), first->optimizer_state()).empty());
  for (const std::size_t size : {5u, 16u, 8u}) {
    step(first, size);
    step(second, size);
  }
  CHECK(copied(first->parameters()) == copied(second->parameters()));
}

TEST_CASE("a checkpoint without a position goes on as after equal batches", "[unit]") {
  const TrainerSpec spec = spec_of(mlp({16}, 10), OptimizerKind::nesterov);
  const auto data = images(30);
  for (const std::uint64_t steps : {2u, 3u, 7u}) {  // An epoch has 3 batches.
    const auto first = built_in_learner(spec, data);
    first->run_steps(steps);
    OptimizerState state = first->optimizer_state();
    state.position.reset();
    const auto second = built_in_learner(spec, data);
    REQUIRE(second->restore(first->parameters(), state).empty());
    first->run_steps(5);
    second->run_steps(5);
    CHECK(copied(first->parameters()) == copied(second->parameters()));
  }
}

TEST_CASE("who adopts another's state goes on like it with every optimiser", "[unit]") {
  for (const OptimizerKind kind : every_kind) {
    INFO("optimiser " << static_cast<int>(kind));
    TrainerSpec spec = spec_of(mlp({16}, 10), kind);
    const auto giver = built_in_learner(spec, images(30));
    giver->run_steps(7);
    spec.peer = 5;
    const auto taker = built_in_learner(spec, images(40));
    taker->run_steps(3);
    gradient_of(taker, 8);
    const auto position = taker->optimizer_state().position;

    Floats state(giver->optimizer_size(), NAN);
    giver->copy_optimizer(state);
    taker->adopt_state(giver->parameters(), state, giver->step(), giver->updates());
    CHECK(taker->step() == 7);
    CHECK(taker->learning_rate() == giver->learning_rate());
    CHECK(taker->optimizer_state().vectors == giver->optimizer_state().vectors);
    for (int i = 0; i < 4; ++i) {
      const Floats gradient = gradient_of(giver, 8);
      giver->update(gradient);
      taker->update(gradient);
    }
    CHECK(copied(taker->parameters()) == copied(giver->parameters()));
    CHECK(taker->updates() == giver->updates());
    // Other peers have completed a sum that contains the taker's samples. The taker has drawn no
    // more samples since.
    CHECK(taker->optimizer_state().position == *position + 8);

    // A state that is not newer does not include these samples, so the taker draws them again.
    gradient_of(taker, 8);
    giver->copy_optimizer(state);
    taker->adopt_state(giver->parameters(), state, giver->step(), giver->updates());
    CHECK(taker->optimizer_state().position == *position + 8);
  }
}

TEST_CASE("no mean makes a model so large that its gradients are not finite", "[unit]") {
  for (const OptimizerKind kind : every_kind) {
    INFO("optimiser " << static_cast<int>(kind));
    const TrainerSpec spec = spec_of(mlp({16, 16}, 10), kind);
    const auto first = built_in_learner(spec, images(30));
    const auto second = built_in_learner(spec, images(40));
    const float before = std::max(1.0F, largest_magnitude(first->parameters()));
    Floats mean(first->parameters().size(), largest_gradient);
    for (std::size_t i = 0; i < mean.size(); i += 3) mean[i] = -largest_gradient;
    for (int i = 0; i < 30; ++i) {
      CHECK(is_finite(gradient_of(first, 8)));
      CHECK(is_finite(gradient_of(second, 8)));
      first->update(mean);
      second->update(mean);
    }
    CHECK(largest_magnitude(first->parameters()) <= 1000 * before);
    CHECK(copied(first->parameters()) == copied(second->parameters()));
    CHECK(first->held() == second->held());
    if (kind == OptimizerKind::sgd) CHECK(first->held() == 30);
    first->end_local_steps(mean, 1);
    CHECK(largest_magnitude(first->parameters()) <= 1000 * before);
  }
}

TEST_CASE("no model of a neighbour makes ours so large that its gradients are not finite",
          "[unit]") {
  const auto learner =
      built_in_learner(spec_of(mlp({16, 16}, 10), OptimizerKind::adam), images(30));
  const float before = std::max(1.0F, largest_magnitude(learner->parameters()));
  for (std::uint64_t round = 1; round <= 10; ++round) {
    learner->run_steps(2);
    learner->change_by_others([](std::span<float> x) {
      for (std::size_t i = 0; i < x.size(); i += 2) x[i] = i % 3 == 0 ? 0x1p100F : -0x1p100F;
    });
    CHECK(learner->held() == round);
    CHECK(largest_magnitude(learner->parameters()) <= 1001 * before);
    CHECK(is_finite(gradient_of(learner, 8)));
  }
}

TEST_CASE("with own steps held a model does not grow from one change by others to the next",
          "[unit]") {
  const auto learner = built_in_learner(spec_of(mlp({16, 16}, 10), OptimizerKind::sgd), images(30));
  const float before = std::max(1.0F, largest_magnitude(learner->parameters()));
  learner->hold_steps(true);
  CHECK(learner->parameter_bound() == 1000 * before);
  for (std::uint64_t round = 1; round <= 10; ++round) {
    learner->change_by_others([](std::span<float> x) {
      for (std::size_t i = 0; i < x.size(); i += 2) x[i] = i % 3 == 0 ? 0x1p100F : -0x1p100F;
    });
    CHECK(largest_magnitude(learner->parameters()) <= 1000 * before);
    learner->run_steps(2);
    CHECK(largest_magnitude(learner->parameters()) <= 1000 * before);
    CHECK(is_finite(gradient_of(learner, 8)));
  }
  // Once the bound is lifted, parameters that grow on their own may exceed it.
  learner->hold_steps(false);
  std::ranges::fill(learner->live_parameters(), 2000 * before);
  learner->change_by_others([](std::span<float>) {});
  CHECK(largest_magnitude(learner->parameters()) == 2000 * before);
}

TEST_CASE("with own steps held a run may begin with a large model and stay as large", "[unit]") {
  const TrainerSpec spec = spec_of(mlp({16}, 10), OptimizerKind::sgd);
  const std::size_t size = built_in_learner(spec, images(30))->parameters().size();
  const Floats large(size, 5000);
  const std::vector<std::function<void(Learner&)>> ways = {
      [&](Learner& learner) { CHECK(learner.restore(large, {}).empty()); },
      [&](Learner& learner) { learner.adopt(large, 2); },
      [&](Learner& learner) { learner.adopt_model(large, 2); },
  };
  for (std::size_t way = 0; way < ways.size(); ++way) {
    INFO("way " << way);
    const auto learner = built_in_learner(spec, images(30));
    learner->hold_steps(true);
    ways[way](*learner);
    CHECK(learner->parameter_bound() == 5000);
    learner->change_by_others([](std::span<float>) {});
    CHECK(learner->held() == 0);
    CHECK(copied(learner->parameters()) == large);
    // A model that is adopted later does not raise the bound.
    learner->go_on_at(3);
    learner->adopt_model(Floats(size, 20000), 4);
    learner->change_by_others([](std::span<float>) {});
    CHECK(learner->held() == 1);
    CHECK(copied(learner->parameters()) == large);
  }
}

TEST_CASE("a model that begins with large parameters keeps them", "[unit]") {
  const TrainerSpec spec = spec_of(mlp({16}, 10), OptimizerKind::sgd);
  const auto learner = built_in_learner(spec, images(30));
  const Floats large(learner->parameters().size(), 5000);
  CHECK(learner->restore(large, {}).empty());
  gradient_of(learner, 8);
  learner->update(Floats(large.size(), 0));
  // Only weight decay shortens the parameters.
  CHECK(std::ranges::min(learner->parameters()) > 4990);
  CHECK(learner->held() == 0);
}

TEST_CASE("a model that becomes large otherwise than by an update keeps its parameters", "[unit]") {
  const TrainerSpec spec = spec_of(mlp({16}, 10), OptimizerKind::sgd);
  const std::size_t size = built_in_learner(spec, images(30))->parameters().size();
  const Floats large(size, 5000), none(size, 0);
  const std::vector<std::function<void(Learner&)>> ways = {
      [&](Learner& learner) { CHECK(learner.restore(large, {}).empty()); },
      [&](Learner& learner) { learner.adopt(large, 2); },
      [&](Learner& learner) { learner.adopt_model(large, 2); },
      [&](Learner& learner) { std::ranges::copy(large, learner.live_parameters().begin()); },
  };
  for (std::size_t way = 0; way < ways.size(); ++way) {
    INFO("way " << way);
    const auto learner = built_in_learner(spec, images(30));
    gradient_of(learner, 8);
    learner->update(none);
    ways[way](*learner);
    gradient_of(learner, 8);
    learner->update(none);
    CHECK(learner->held() == 0);
    CHECK(std::ranges::min(learner->parameters()) > 4990);
  }
}

TEST_CASE("the swarm's schedule goes on within a task from the progress it was told of", "[unit]") {
  const auto shard = images(200);
  TrainerSpec spec = spec_of(mlp({8}, 10), OptimizerKind::momentum);
  const auto plain = built_in_learner(spec, shard);
  plain->run_steps(60);
  spec.follows_swarm = true;
  const auto told = built_in_learner(spec, shard);
  for (const double progress : {0.0, 0.2, 0.4}) {
    told->set_progress(progress);
    told->run_steps(20);
  }
  CHECK(copied(told->parameters()) == copied(plain->parameters()));
  // The progress of other peers also counts at once.
  told->set_progress(0.9);
  CHECK(told->learning_rate() < 0.5 * plain->learning_rate());
}

}  // namespace gv
