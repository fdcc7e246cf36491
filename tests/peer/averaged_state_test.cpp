// The mean of models and optimisers that peers adopt before another mode, with hostile values in
// it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/magnitude.hpp"
#include "peer/node/whole_replica.hpp"
#include "train/built_in_learner.hpp"

namespace gv {
namespace {

std::unique_ptr<Learner> learner_with(OptimizerKind kind) {
  const auto data = std::make_shared<DataSet>();
  data->shape = {1, 1, 4};
  data->classes = 2;
  data->bytes = {1, 2, 3, 4, 5, 6, 7, 8};
  data->scale = 1;
  data->labels = {0, 1};
  return built_in_learner({.model = mlp({4}, 2), .optimizer = {.kind = kind}, .batch = 2}, data);
}

std::vector<float> state_of(WholeReplica& replica) {
  const auto state = std::make_shared<Floats>(replica.state_size());
  replica.run({.tasks = {task::ExportState{state}}});
  return {state->begin(), state->end()};
}

}  // namespace

TEST_CASE("a mean with a state that no optimiser can have made resets all optimisers alike",
          "[unit]") {
  for (const OptimizerKind kind : {OptimizerKind::adam, OptimizerKind::adamw, OptimizerKind::lamb,
                                   OptimizerKind::rmsprop, OptimizerKind::adagrad}) {
    CAPTURE(static_cast<int>(kind));
    WholeReplica first(learner_with(kind), 0);
    WholeReplica second(learner_with(kind), 1);
    const std::size_t size = first.learner().layout().size();
    CompressionPlan plan;
    plan.elements = first.state_size();
    const auto mean = std::make_shared<Floats>(plan.elements);
    first.run({.tasks = {task::TakeSteps{3}, task::ExportState{mean}}});
    // A hostile peer has put negative second moments into the mean.
    std::ranges::fill(std::span(*mean).last(size), -1.0F);
    std::vector<float> wanted(mean->begin(), mean->end());
    std::ranges::fill(std::span(wanted).subspan(size), 0.0F);

    const task::ApplyUpdate adopt{.values = mean, .plan = plan, .becomes_model_at = 9};
    first.run({.tasks = {adopt}});
    second.run({.tasks = {task::TakeSteps{1}, adopt}});
    CHECK(state_of(first) == wanted);
    CHECK(state_of(second) == wanted);

    // A third peer has missed the mean, and downloads the state.
    WholeReplica third(learner_with(kind), 2);
    const auto state = std::make_shared<const Floats>(wanted.begin(), wanted.end());
    third.run({.tasks = {task::LoadState{.values = state, .step = 9}}});
    CompressionPlan of_gradient;
    of_gradient.elements = size;
    const auto gradient = std::make_shared<const Floats>(size, 0.25F);
    for (WholeReplica* replica : {&first, &second, &third}) {
      replica->run({.tasks = {task::ApplyUpdate{.values = gradient, .plan = of_gradient}}});
      CHECK(replica->step() == 10);
      CHECK(is_finite(replica->parameters()));
      CHECK(std::ranges::equal(replica->parameters(), first.parameters()));
    }
  }
}

}  // namespace gv
