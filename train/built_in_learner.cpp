// The one place of the program that knows the trainers by their types.
#include "train/built_in_learner.hpp"

#include <utility>

#include "train/stage_trainer.hpp"
#include "train/trainer.hpp"

namespace gv {

std::unique_ptr<Learner> built_in_learner(TrainerSpec spec, std::shared_ptr<const DataSet> shard,
                                          std::shared_ptr<const DataSet> held_out,
                                          RunTogether together) {
  const bool is_shared_by_threads = spec.threads > 1 && together;
  auto trainer = std::make_unique<Trainer>(std::move(spec), std::move(shard));
  if (held_out) trainer->hold_out(std::move(held_out));
  if (is_shared_by_threads) trainer->step_together(std::move(together));
  return trainer;
}

std::unique_ptr<StageLearner> built_in_stage_learner(StagesSpec spec,
                                                     std::shared_ptr<const DataSet> shard) {
  return std::make_unique<StageTrainer>(std::move(spec), std::move(shard));
}

}  // namespace gv
