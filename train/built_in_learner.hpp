// Makes the learners that are built in: of a whole model, and of the stages of one.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "train/data_set.hpp"
#include "train/learner/learner.hpp"
#include "train/learner/stage_learner.hpp"
#include "train/spec.hpp"

namespace gv {

/// Calls `work` with 0 to count - 1, all at once if it can, and returns when all calls have.
using RunTogether =
    std::function<void(std::size_t count, const std::function<void(std::size_t)>& work)>;

/// A learner of the spec's model before its first step, on `shard`. With `held_out` it can be a
/// member of a population. `together` runs the workers of a spec with several threads; without it
/// there is one.
std::unique_ptr<Learner> built_in_learner(TrainerSpec spec, std::shared_ptr<const DataSet> shard,
                                          std::shared_ptr<const DataSet> held_out = nullptr,
                                          RunTogether together = {});

/// A learner of the spec's stages that carries none of them yet. The first stage draws its samples
/// from `shard`.
std::unique_ptr<StageLearner> built_in_stage_learner(StagesSpec spec,
                                                     std::shared_ptr<const DataSet> shard);

}  // namespace gv
