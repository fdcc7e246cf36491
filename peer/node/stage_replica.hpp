// The stages of the model that one peer of a pipeline carries, and the jobs that change them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "consensus/message/message.hpp"
#include "peer/node/replica.hpp"
#include "peer/node/stage_mixers.hpp"
#include "train/learner/stage_learner.hpp"

namespace gv {

/// The only code that touches live parameters of stages.
class StageReplica {
 public:
  explicit StageReplica(std::unique_ptr<StageLearner> learner) : learner_(std::move(learner)) {}

  /// If set, passes from now on compute nothing but count their gradients as computed.
  void set_stand_in(PassStandIn stand_in) { stand_in_ = std::move(stand_in); }

  /// From here on jobs may have stages mix with their other replicas by this rule.
  void mix_by(const MixRule& rule, std::uint64_t run_seed);

  /// Runs what the job asks of stages, but not the save.
  JobDone run(Job job);

  const StageLearner& learner() const { return *learner_; }

  /// Version of the stages: it names equal bits, and goes with them into a checkpoint.
  const ModelVersion& version() const { return version_; }

 private:
  void end(const StageEnd& end);
  Score carry_out(const StageOrder& order);

  std::unique_ptr<StageLearner> learner_;
  PassStandIn stand_in_;
  ModelVersion version_;
  std::optional<StageMixers> mixers_;
};

/// A peer's part of the model: all of it, or stages of it.
using AnyReplica = std::variant<Replica, StageReplica>;

}  // namespace gv
