// The stages of the model that one peer of a pipeline carries, and the jobs that change them.
#pragma once

#include <cstdint>

#include "peer/replica.hpp"
#include "train/stage_trainer.hpp"

namespace gv {

/// The only code that touches live parameters of stages.
class StageReplica {
 public:
  explicit StageReplica(StageTrainer trainer) : trainer_(std::move(trainer)) {}

  /// Runs what the job asks of stages, but not the save.
  JobDone run(Job job);

  const StageTrainer& trainer() const { return trainer_; }
  StageTrainer& trainer() { return trainer_; }

 private:
  void end(const StageEnd& end);
  Score carry_out(const StageOrder& order);

  StageTrainer trainer_;
};

}  // namespace gv
