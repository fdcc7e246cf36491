// Makes a training task from a config: data, shard, learner, and where a replica starts and is
// saved.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "peer/config/config.hpp"
#include "peer/modes/pipeline_options.hpp"
#include "peer/node/replica.hpp"
#include "peer/node/stage_replica.hpp"
#include "train/data_set.hpp"
#include "train/hogwild.hpp"
#include "train/learner/learner.hpp"
#include "train/spec.hpp"

namespace gv {

/// One peer's share of a run. `problems` is empty when the rest may be used.
struct Task {
  std::shared_ptr<const DataSet> shard;     ///< Null for a learner that is not built in.
  std::shared_ptr<const DataSet> held_out;  ///< In a population: samples cut off the shard.
  TrainerSpec trainer;
  LocalSteps local;
  std::optional<MixRule> rule;       ///< By which models or stages mix; empty: nothing mixes.
  std::optional<StagesSpec> stages;  ///< Stages of mode `pipeline`.
  Problems problems;
};

/// Loads the training data, cuts it into config.run.peers shards and keeps number `shard`.
Task load_task(const Config& config, std::size_t shard);

/// The tasks of all peers, reading the data only once: for a simulator. One task with problems if
/// there are any.
std::vector<Task> load_tasks(const Config& config);

/// The task of a learner that is not built in and has its own data. Of the config it takes the way
/// of working with other peers, the budget and the size of a batch.
Task task_of(const Config& config, const Learner& learner);

/// The held-out samples, whole.
struct TestSet {
  std::shared_ptr<const DataSet> data;
  ModelSpec model;
  Problems problems;
};
TestSet load_test_set(const Config& config);

/// For texts, figures besides the loss: "  perplexity 6.12  2.614 bits per byte". Else empty.
std::string uncertainty(const Score& score, const DataSet& data);

/// The built-in learner of a task that is not a pipeline's. `together` runs its threads, if it has
/// several.
std::unique_ptr<Learner> learner_of(const Task& task, RunTogether together = {});

/// The built-in learner of a pipeline's task, which carries no stage yet.
std::unique_ptr<StageLearner> stages_of(const Task& task);

/// The replica of a learner before its first step.
Replica first_replica(const Task& task, std::size_t shard, std::unique_ptr<Learner> learner);

/// Where a replica begins.
struct StartingPoint {
  AnyReplica replica;
  std::uint64_t step = 0;
  std::optional<ModelVersion> version;  ///< Version of the loaded stages, in a pipeline.
  std::vector<std::uint32_t> stages;
  /// Older checkpoints of stages: other peers may have none newer.
  std::vector<StageState> copies;
  std::vector<Fact> facts;  ///< Says which checkpoint was loaded, and which were refused and why.
};

/// The run's first model or, with `resume`, the newest sound checkpoint in `checkpoints`. A
/// pipeline makes its learner itself, so `learner` is null.
StartingPoint starting_point(const Task& task, std::unique_ptr<Learner> learner,
                             const std::filesystem::path& checkpoints, std::size_t shard,
                             bool resume);

/// Metadata of a parameter file: its run's config, and where the data lay, for eval.
std::map<std::string, std::string> run_metadata(const Config& config, std::string_view config_text);

/// Writes a checkpoint from which a later start can go on, with the config inside. Returns an
/// error, or an empty string.
std::string save_replica(const std::filesystem::path& checkpoints, const AnyReplica& replica,
                         const Config& config, std::string_view config_text);

/// One past the last layer of each stage: the given ends, or the cut with the quickest slowest
/// stage within the memory allowed, by estimated costs of layers. Empty if there are fewer layers
/// than stages or no cut fits the memory.
std::vector<std::size_t> stage_ends(const Config& config, const ModelSpec& model,
                                    SampleShape shape);

/// The folder of one stage's checkpoints among those of a peer of a pipeline.
std::filesystem::path stage_folder(const std::filesystem::path& checkpoints, std::size_t stage);

/// The text of a config file; of the built-in one for an empty path. Empty when it cannot be read.
std::string read_config_text(const std::string& path);

}  // namespace gv
