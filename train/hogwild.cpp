// Workers that share parameters through relaxed loads and stores.
#include "train/hogwild.hpp"

#include <atomic>
#include <utility>

#include "base/check.hpp"
#include "train/schedule.hpp"

namespace gv {
namespace {

using Shared = std::atomic_ref<float>;
static_assert(Shared::is_always_lock_free);

void copy(float* x, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = Shared(x[i]).load(std::memory_order_relaxed);
}

/// Makes a step of SGD on `x`, and also writes the new values to `own`. The next gradient then
/// needs no separate pass that copies them, and values written by another core are fetched once in
/// a step, not twice.
void descend(float* x, const float* gradient, float* own, std::size_t n, float rate, float decay) {
  for (std::size_t i = 0; i < n; ++i) {
    Shared shared(x[i]);
    const float before = shared.load(std::memory_order_relaxed);
    const float change = rate * (gradient[i] + decay * before);
    own[i] = before - change;
    if (change != 0) shared.store(own[i], std::memory_order_relaxed);
  }
}

}  // namespace

Hogwild::Worker::Worker(const TrainerSpec& spec, const std::shared_ptr<const DataSet>& shard)
    : model(spec.model, shard->shape, spec.batch),
      sampler(shard, spec.seed, spec.sampling_peer()),
      parameters(model.layout().size()),
      gradient(model.layout().size()) {}

Hogwild::Hogwild(const TrainerSpec& spec, std::shared_ptr<const DataSet> shard,
                 RunTogether together)
    : spec_(spec), together_(std::move(together)) {
  check(spec.optimizer.kind == OptimizerKind::sgd, "steps without locks are plain SGD");
  for (std::size_t i = 0; i < spec.threads; ++i) workers_.emplace_back(spec, shard);
}

void Hogwild::make_step(Worker& worker, std::span<float> x, double learning_rate, double decay,
                        std::uint64_t number, std::uint64_t position) const {
  const Batch batch = worker.sampler.batch(position, spec_.batch);
  Rng rng = Rng(spec_.seed).fork(spec_.peer).fork("dropout").fork(number);
  worker.score += worker.model.gradient(worker.parameters, batch, worker.gradient, rng);
  descend(x.data(), worker.gradient.data(), worker.parameters.data(), x.size(),
          static_cast<float>(learning_rate), static_cast<float>(decay));
}

Score Hogwild::run(std::span<float> parameters, const RateOfStep& rate, double decay,
                   std::uint64_t step, std::uint64_t& position, std::uint64_t count) {
  std::vector<std::uint64_t> positions;
  const Sampler& sampler = workers_.front().sampler;
  for (std::uint64_t i = 0; i < count; ++i) {
    positions.push_back(position);
    position = sampler.after(position, spec_.batch);
  }
  for (Worker& worker : workers_) worker.score = {};
  std::atomic<std::uint64_t> next{0};
  together_(workers_.size(), [&](std::size_t number) {
    Worker& worker = workers_[number];
    copy(parameters.data(), worker.parameters.data(), parameters.size());
    for (;;) {
      const std::uint64_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= count) return;
      make_step(worker, parameters, rate(step + i), decay, step + i, positions[i]);
    }
  });
  Score total;
  for (const Worker& worker : workers_) total += worker.score;
  return total;
}

}  // namespace gv
