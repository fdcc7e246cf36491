// One mixer for each stage.
#include "peer/node/stage_mixers.hpp"

#include <algorithm>

#include "base/magnitude.hpp"
#include "base/rng.hpp"

namespace gv {
namespace {

/// The default of the setting gossip.norm_cap, which a pipeline does not read.
constexpr double copy_norm_cap = 10;

}  // namespace

std::vector<float> pair_force(std::span<const float> mean, std::span<const float> snapshot) {
  std::vector<float> values(mean.size());
  // Compute the other copy first, to measure its norm.
  for (std::size_t i = 0; i < mean.size(); ++i) values[i] = 2 * mean[i] - snapshot[i];
  const double longest = copy_norm_cap * std::max(norm_of(snapshot), 1.0);
  if (!(norm_of(values) <= longest)) return {};
  for (std::size_t i = 0; i < mean.size(); ++i) values[i] = mean[i] - snapshot[i];
  return values;
}

std::uint64_t stage_seed(std::uint64_t run_seed, std::uint32_t stage) {
  return hash_combine(run_seed, stage);
}

StageMixers::StageMixers(const MixRule& rule, std::uint64_t run_seed,
                         std::span<const std::size_t> sizes) {
  for (const std::size_t size : sizes) {
    mixers_.emplace_back(rule, size,
                         stage_seed(run_seed, static_cast<std::uint32_t>(mixers_.size())));
  }
}

void StageMixers::send(const task::SendStage& task, std::span<const float> parameters) {
  Mixer<float>& mixer = mixers_[task.stage];
  std::vector<float> x(parameters.begin(), parameters.end());
  if (task.place) {
    mixer.begin_generation(task.place->rank, task.place->order, task.place->key, x);
  }
  mixer.begin_round(task.round, x);
  task.outbox->messages = mixer.messages(task.round, x);
  task.outbox->sound = mixer.is_sound();
}

std::vector<float> StageMixers::mixed(const StageEnd& end, std::span<const float> parameters) {
  std::vector<float> x(parameters.begin(), parameters.end());
  mixers_[end.stage].mix(*end.round, x, end.arrived);
  return x;
}

}  // namespace gv
