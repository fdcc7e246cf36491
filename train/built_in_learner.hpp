// Makes the built-in learners: one for a whole model, and one for the stages of a model.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "train/data/block_reader.hpp"
#include "train/data_set.hpp"
#include "train/learner/learner.hpp"
#include "train/learner/stage_learner.hpp"
#include "train/spec.hpp"

namespace gv {

/// Calls `work` with each number from 0 to count - 1, in parallel if possible. Returns when all
/// calls have returned.
using RunTogether =
    std::function<void(std::size_t count, const std::function<void(std::size_t)>& work)>;

/// Returns a new learner for the spec's model, which trains on `shard`. With `held_out` it can be a
/// member of a population. With `test` it can measure its model on those samples. `together` runs
/// the spec's threads; without it there is one thread. If the shard is in files, there must be one
/// thread, and the data must be leased. `aside` then reads the files ahead of time; without it,
/// they are read when samples are needed.
std::unique_ptr<Learner> built_in_learner(TrainerSpec spec, std::shared_ptr<const DataSet> shard,
                                          std::shared_ptr<const DataSet> held_out = nullptr,
                                          RunTogether together = {}, RunAside aside = {},
                                          std::shared_ptr<const DataSet> test = nullptr);

/// Returns a learner for the spec's stages that does not carry any stage yet. The first stage draws
/// training samples from `shard` and test samples from `test`.
std::unique_ptr<StageLearner> built_in_stage_learner(StagesSpec spec,
                                                     std::shared_ptr<const DataSet> shard,
                                                     std::shared_ptr<const DataSet> test = nullptr);

}  // namespace gv
