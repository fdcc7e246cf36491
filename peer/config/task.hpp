// Makes a training task from a config: its data, shard and learner. Loads and saves replicas.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "peer/config/config.hpp"
#include "peer/config/node_options.hpp"
#include "peer/modes/pipeline_options.hpp"
#include "peer/node/whole_replica.hpp"
#include "train/checkpoint/safetensors.hpp"
#include "train/data/block_reader.hpp"
#include "train/data_set.hpp"
#include "train/hogwild.hpp"
#include "train/learner/learner.hpp"
#include "train/spec.hpp"

namespace gv {

/// One peer's part of a run. The other fields are valid only if `problems` is empty.
struct Task {
  /// The training samples; null if the learner is not built in.
  std::shared_ptr<const DataSet> shard;
  /// Samples taken from the shard for validation. Set only in a population.
  std::shared_ptr<const DataSet> held_out;
  /// Samples on which to measure the model. Set only with a target accuracy.
  std::shared_ptr<const DataSet> test;
  std::size_t samples = 0;  ///< Number of samples in all shards; 0 if the learner is not built in.
  TrainerSpec trainer;
  LocalSteps local;
  /// The rule by which models or stages mix; nullopt if nothing mixes.
  std::optional<MixRule> rule;
  std::optional<StagesSpec> stages;  ///< The stages of mode `pipeline`.
  std::size_t slices_most = 0;       ///< The most slices of a stage, as in PipelineOptions.
  Problems problems;
};

/// Loads the training data, cuts it into config.run.peers shards and keeps number `shard`.
Task load_task(const Config& config, std::size_t shard);

/// Lists why a model trained on the training samples cannot be evaluated on the test samples.
Problems problems_of_test(const Config& config, const DataSet& train, const DataSet& test);

/// Finds, for all peers, the problems that appear only with the data: in the files, in the model
/// and its cut, and in the number of samples. Reads all files and keeps no data.
Problems problems_with_data(const Config& config);

/// Returns the tasks of all peers, for a simulator. Reads the data only once. If there are
/// problems, returns a single task that contains them.
std::vector<Task> load_tasks(const Config& config);

/// Returns the task of a learner that is not built in and has its own data. The config provides the
/// settings for working with other peers, the budget and the batch size. `all_samples` is the
/// number of samples of all peers together; 0 if unknown.
Task task_of(const Config& config, const Learner& learner, std::uint64_t all_samples = 0);

/// The samples on which to test a model.
struct TestSet {
  std::shared_ptr<const DataSet> data;
  ModelSpec model;
  Problems problems;
};
/// Loads the test data. `classes` is the number of classes of the model to be tested, taken from
/// the training data or from classes_in(), because test data may lack samples of the last classes.
/// 0 means unknown; the test data are then assumed to have samples of all classes.
TestSet load_test_set(const Config& config, std::size_t classes = 0);

/// Returns the number of classes of the config's model, read from the tensors of the model or of
/// its last stage. Returns 0 if the tensors do not show this number, or if the data do not
/// determine it.
std::size_t classes_in(const Config& config, const std::vector<Tensor>& tensors);
/// Returns the number of classes from the first of these parameter files that shows it; 0 if none
/// does.
std::size_t classes_in(const Config& config, const std::vector<std::filesystem::path>& files);

/// For texts, returns figures besides the loss: "  perplexity 6.12  2.614 bits per byte". Returns
/// an empty text for other data.
std::string uncertainty(const Score& score, const DataSet& data);

/// Makes the built-in learner of a task that is not a pipeline's. If the learner has several
/// threads, `together` runs them; if its data are in files, `aside` reads them ahead of time.
std::unique_ptr<Learner> learner_of(const Task& task, RunTogether together = {},
                                    RunAside aside = {});

/// Makes the built-in learner of a pipeline's task. The learner does not carry a stage yet.
std::unique_ptr<StageLearner> stages_of(const Task& task);

/// Returns the replica of a learner before its first step.
std::unique_ptr<WholeReplica> first_replica(const Task& task, std::size_t shard,
                                            std::unique_ptr<Learner> learner);

/// The state from which a replica begins.
struct StartingPoint {
  std::unique_ptr<Replica> replica;
  ModelFacts model;
  std::uint64_t step = 0;
  std::optional<ModelVersion> version;  ///< In a pipeline, the version of the loaded stages.
  std::vector<std::uint32_t> parts;     ///< Parts of stages (see StageParts) that were loaded.
  /// Older checkpoints of stages, in case no other peer has newer ones.
  std::vector<StageState> copies;
  /// Facts for the log: which checkpoint was loaded, and why others were refused.
  std::vector<Fact> facts;
  /// Why the peer must not start. If there is a problem, the other fields are meaningless. A
  /// damaged checkpoint is no problem: the peer continues from an older one, or from the model of
  /// other peers.
  Problems problems;
};

/// Returns the problem for a readable checkpoint that belongs to another model or optimiser.
Problem unfit_checkpoint(const std::filesystem::path& file, const std::string& why);

/// Returns the run's first model or, with `resume`, the newest valid checkpoint in `checkpoints`. A
/// pipeline makes its own learner, so `learner` is null for it.
StartingPoint starting_point(const Task& task, std::unique_ptr<Learner> learner,
                             const std::filesystem::path& checkpoints, std::size_t shard,
                             bool resume);

/// Returns the facts about a start that a person should read: why checkpoints were refused and, if
/// none was left, that the peer starts without one. Empty if no checkpoint was refused.
std::vector<Fact> lost_checkpoints(const StartingPoint& point);

/// Returns the metadata that a parameter file needs for evaluation: the run's config, its number of
/// peers and the location of the data.
std::map<std::string, std::string> run_metadata(const Config& config, std::string_view config_text);

/// Writes only the model of a replica to a file. Returns the error, or an empty string.
std::string write_model(const std::filesystem::path& file, const Layout& layout,
                        std::span<const float> parameters,
                        const std::map<std::string, std::string>& metadata);

/// Writes a checkpoint from which a later start can continue, and deletes those of later steps,
/// also of stages that the replica no longer has. The checkpoint contains the config. Returns the
/// error, or an empty string.
std::string save_replica(const std::filesystem::path& checkpoints, const Replica& replica,
                         const Config& config, std::string_view config_text);

/// The folder for a stage's checkpoints, inside the checkpoint folder of a pipeline's peer.
std::filesystem::path stage_folder(const std::filesystem::path& checkpoints, std::size_t stage);

/// The parameter files in the folder of a peer, each of the whole model or of one stage, newest
/// first.
std::vector<std::filesystem::path> checkpoints_of(const std::filesystem::path& folder);

/// Returns the text of a config file, or of the built-in config if the path is empty. Returns an
/// empty text if the file cannot be read.
std::string read_config_text(const std::string& path);

}  // namespace gv
