// With one worker, steps without locks equal SGD. With several workers, they learn as well as SGD
// does. Each sample is used once.
#include "train/hogwild.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "train/built_in_learner.hpp"
#include "train/data/generated.hpp"

namespace gv {
namespace {

/// The first worker does all the work before the others begin.
void one_after_the_other(std::size_t count, const std::function<void(std::size_t)>& work) {
  for (std::size_t i = 0; i < count; ++i) work(i);
}

/// All workers begin together. Otherwise the first could be done before the last has started.
void at_once(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::latch begin(static_cast<std::ptrdiff_t>(count));
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      begin.arrive_and_wait();
      work(i);
    });
  }
}

std::shared_ptr<const DataSet> blobs() {
  return std::make_shared<const DataSet>(
      generate_blobs({.samples = 2000, .features = 16, .classes = 4, .noise = 1, .seed = 5}, 0));
}

TrainerSpec spec_of(ModelSpec model, std::size_t threads) {
  return {.model = std::move(model),
          .optimizer = {.kind = OptimizerKind::sgd, .weight_decay = 1e-4},
          .schedule = {.kind = ScheduleKind::cosine, .learning_rate = 0.05},
          .batch = 20,
          .threads = threads,
          .steps = 1000};
}

/// Each sample has its own input, and therefore a weight that no other sample moves.
std::shared_ptr<const DataSet> one_hot(std::size_t samples) {
  DataSet data{.shape = {samples, 1, 1}, .target_width = 1};
  data.floats.assign(samples * samples, 0);
  for (std::size_t i = 0; i < samples; ++i) {
    data.floats[i * samples + i] = 1;
    data.targets.push_back(100 + static_cast<float>(i));
  }
  return std::make_shared<const DataSet>(std::move(data));
}

}  // namespace

TEST_CASE("one worker at a time makes the steps of plain SGD bit for bit") {
  const auto serial = built_in_learner(spec_of(mlp({12}, 4), 1), blobs());
  const auto shared =
      built_in_learner(spec_of(mlp({12}, 4), 3), blobs(), nullptr, one_after_the_other);
  for (const std::uint64_t steps : {1, 7, 150}) {
    const Score expected = serial->run_steps(steps);
    const Score score = shared->run_steps(steps);
    CHECK(score.loss == expected.loss);
    CHECK(std::ranges::equal(shared->parameters(), serial->parameters()));
    CHECK(shared->step() == serial->step());
    CHECK(shared->learning_rate() == serial->learning_rate());
  }
  CHECK(shared->optimizer_state().position == serial->optimizer_state().position);
  CHECK(shared->optimizer_state().updates == serial->optimizer_state().updates);
}

TEST_CASE("steps at once follow a weight decay that a population has changed") {
  const auto serial = built_in_learner(spec_of(mlp({12}, 4), 1), blobs(), blobs());
  const auto shared =
      built_in_learner(spec_of(mlp({12}, 4), 3), blobs(), blobs(), one_after_the_other);
  for (const auto& learner : {serial.get(), shared.get()}) {
    learner->run_steps(5);
    Hyperparameters changed = learner->tunable()->hyperparameters();
    changed.weight_decay = 0.1;
    learner->tunable()->set_hyperparameters(changed);
    learner->run_steps(20);
  }
  CHECK(std::ranges::equal(shared->parameters(), serial->parameters()));
}

TEST_CASE("the budget ends for steps at once as for others") {
  const auto shared = built_in_learner(spec_of(mlp({12}, 4), 3), blobs(), nullptr, at_once);
  shared->run_steps(990);
  CHECK(shared->run_steps(50).samples == 10 * 20);
  CHECK(shared->step() == 1000);
}

TEST_CASE("an epoch of steps at once takes every sample once") {
  constexpr std::size_t samples = 512;
  TrainerSpec spec = spec_of(linear(1), 4);
  spec.model.loss = LossKind::squared;
  spec.optimizer.weight_decay = 0;
  spec.batch = 1;
  for (int repeat = 0; repeat < 30; ++repeat) {
    const auto shared = built_in_learner(spec, one_hot(samples), nullptr, at_once);
    const std::vector<float> before(shared->parameters().begin(), shared->parameters().end());
    // The number of samples is right and no sample is left out, so each was used exactly once.
    CHECK(shared->run_steps(samples).samples == samples);
    std::size_t moved = 0;
    for (std::size_t i = 0; i < samples; ++i) moved += shared->parameters()[i] != before[i] ? 1 : 0;
    REQUIRE(moved == samples);
  }
}

TEST_CASE("steps at once come to the loss of serial ones where the problem is convex") {
  const auto data = blobs();
  const auto serial = built_in_learner(spec_of(linear(4), 1), data, data);
  const auto shared = built_in_learner(spec_of(linear(4), 4), data, data, at_once);
  const double first = serial->tunable()->validation_loss();
  serial->run_steps(1000);
  for (int job = 0; job < 100; ++job) shared->run_steps(10);
  const double expected = serial->tunable()->validation_loss();
  INFO("from " << first << " to " << expected << " and " << shared->tunable()->validation_loss());
  CHECK(expected < 0.5 * first);
  CHECK(shared->tunable()->validation_loss() == Approx(expected).epsilon(0.05));
}

}  // namespace gv
