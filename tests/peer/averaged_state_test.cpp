// The mean of models and optimiser states that peers adopt before they switch to another mode, with
// hostile values in it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/magnitude.hpp"
#include "peer/node/whole_replica.hpp"
#include "tests/peer/tiny_learner.hpp"

namespace gv {
namespace {

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
    WholeReplica first(tiny_learner(kind), 0);
    WholeReplica second(tiny_learner(kind), 1);
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
    WholeReplica third(tiny_learner(kind), 2);
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
