// Mixes the stages that a peer carries with their other replicas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "consensus/mixing/mixer.hpp"
#include "peer/node/job.hpp"

namespace gv {

/// The force of averaging a stage with one other replica: `mean` (of both copies) minus `snapshot`
/// (our copy). Empty if the other copy's norm is not finite, or more than ten times ours (or than
/// 10, if ours is below 1). Gossip refuses whole models by the same rule.
std::vector<float> pair_force(std::span<const float> mean, std::span<const float> snapshot);

/// Seed of a stage's mixing, the same at all its replicas.
std::uint64_t stage_seed(std::uint64_t run_seed, std::uint32_t stage);

/// A mixer for each stage of a model, even for stages that this peer does not carry. Mixers keep no
/// state between rounds, so a run that is given up leaves no trace. Pure.
class StageMixers {
 public:
  /// `sizes`: numbers of parameters by stage.
  StageMixers(const MixRule& rule, std::uint64_t run_seed, std::span<const std::size_t> sizes);

  /// Fills the task's outbox with messages about a stage that has these parameters.
  void send(const task::SendStage& task, std::span<const float> parameters);

  /// The mixed parameters at the end of a run. `parameters` are ours after the run's steps. `end`
  /// must have a round.
  std::vector<float> mixed(const StageEnd& end, std::span<const float> parameters);

 private:
  std::vector<Mixer<float>> mixers_;
};

}  // namespace gv
