// From a config to what is trained: data, shard, trainer, and where a replica starts and is kept.
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
#include "peer/node/replica.hpp"
#include "peer/node/stage_replica.hpp"
#include "train/evaluation.hpp"
#include "train/trainer.hpp"

namespace gv {

/// One peer's share of a run. `problems` is empty when the rest may be used.
struct Task {
  std::shared_ptr<const DataSet> shard;
  std::shared_ptr<const DataSet> held_out;  ///< In a population: what was cut off the shard.
  TrainerSpec trainer;
  LocalSteps local;
  std::size_t factor_rank = 0;       ///< In lockstep: of gradients' factors, if it is above 0.
  std::optional<MixRule> rule;       ///< Of rounds.
  std::optional<StagesSpec> stages;  ///< Of a pipeline.
  Problems problems;
};

/// Loads the training data, cuts it into config.run.peers shards and keeps number `shard`.
Task load_task(const Config& config, std::size_t shard);

/// Every peer's share at once, the data read only once: for a simulator of all of them. One task
/// with problems when there are any.
std::vector<Task> load_tasks(const Config& config);

/// The held-out samples, whole.
struct TestSet {
  std::shared_ptr<const DataSet> data;
  ModelSpec model;
  Problems problems;
};
TestSet load_test_set(const Config& config);

/// What is said of a text besides the loss: "  perplexity 6.12  2.614 bits per byte". Else empty.
std::string uncertainty(const Score& score, const DataSet& data);

/// The replica as it is before its first step, of a task that is not a pipeline's.
Replica first_replica(const Task& task, std::size_t shard);

/// Where a replica begins.
struct StartingPoint {
  AnyReplica replica;
  std::uint64_t step = 0;
  std::optional<ModelVersion> version;  ///< Of the stages taken up, in a pipeline.
  std::vector<std::uint32_t> stages;
  std::vector<StageState> copies;  ///< Older checkpoints of stages: others may have none newer.
  std::vector<Event> events;       ///< Which checkpoint was taken up, which were refused and why.
};

/// The run's first model or, with `resume`, the newest sound checkpoint in `checkpoints`.
StartingPoint starting_point(const Task& task, const std::filesystem::path& checkpoints,
                             std::size_t shard, bool resume);

/// What a file of parameters says of its run: its config, and where the data lay, for eval.
std::map<std::string, std::string> run_metadata(const Config& config, std::string_view config_text);

/// Writes a checkpoint that a later start can go on from, with the config inside. Returns why it
/// could not, or an empty string.
std::string save_replica(const std::filesystem::path& checkpoints, const AnyReplica& replica,
                         const Config& config, std::string_view config_text);

/// One past the last layer of each stage: those asked for, or the cut with the quickest slowest
/// stage, within the memory allowed, by what layers are estimated to cost. Empty if there are fewer
/// layers than stages or no cut fits the memory.
std::vector<std::size_t> stage_ends(const Config& config, const ModelSpec& model,
                                    SampleShape shape);

/// The folder of one stage's checkpoints among those of a peer of a pipeline.
std::filesystem::path stage_folder(const std::filesystem::path& checkpoints, std::size_t stage);

/// The text of a config file; the built-in one's for an empty path. Empty when it cannot be read.
std::string read_config_text(const std::string& path);

}  // namespace gv
