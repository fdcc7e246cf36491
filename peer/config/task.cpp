// Loads the data, shards, trainers and checkpoints of a run.
#include "peer/config/task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <system_error>

#include "peer/config/load_data.hpp"
#include "peer/config/model_problems.hpp"
#include "peer/config/resumed_stages.hpp"
#include "peer/config/shards.hpp"
#include "peer/config/stage_cut.hpp"
#include "peer/modes/course.hpp"
#include "peer/node/hyperparameters.hpp"
#include "peer/node/stage_replica.hpp"
#include "train/built_in_learner.hpp"
#include "train/checkpoint/checkpoint.hpp"
#include "train/checkpoint/safetensors.hpp"
#include "train/model.hpp"
#include "train/model_stages.hpp"
#include "train/optimizer.hpp"

namespace gv {
namespace {

/// Lets groups of peers share the stages of a pipeline, within the memory of each peer.
void share(const Config& config, const std::vector<std::size_t>& ends, Task& task) {
  const ModelSpec& model = task.trainer.model;
  const std::vector<bool> shareable = shareable_stages(model, task.shard->shape, ends);
  if (std::ranges::find(shareable, true) == shareable.end()) {
    task.problems.push_back({"pipeline.group",
                             "no stage has a dense or attention layer large enough to be shared",
                             "write group = 1, or use wider layers"});
    return;
  }
  task.slices_most = slices_most(config, model, task.shard->shape, ends);
  if (task.slices_most == 0) return;
  // With chimera, a peer carries a stage together with its mirror image.
  const bool is_mirrored = config.pipeline.schedule == PipelineKind::chimera;
  const std::size_t each = (slices_of_stage + task.slices_most - 1) / task.slices_most;
  std::size_t all = 0;
  for (std::size_t stage = 0; stage < (is_mirrored ? ends.size() / 2 : ends.size()); ++stage) {
    const std::size_t mirror = is_mirrored ? ends.size() - 1 - stage : stage;
    all += shareable[stage] && shareable[mirror] ? each : 1;
  }
  if (each == 1 || config.run.peers >= all) return;
  task.problems.push_back(
      {"pipeline.memory_mb",
       fmt::format("with so little each shared stage needs {} peers, and all stages {}; the run "
                   "has {}",
                   each, all, config.run.peers),
       "allow more, or start more peers"});
}

/// Turns `task` into the task of a pipeline. Every run takes the micro-batches of all peers
/// together.
void cut(const Config& config, std::size_t samples, Task& task) {
  const PipelineConfig& pipeline = config.pipeline;
  StagesSpec stages{.trainer = task.trainer,
                    .ends = stage_ends(config, task.trainer.model, task.shard->shape),
                    .recomputes = pipeline.recompute,
                    .keeps_versions = !is_synchronous(pipeline.schedule),
                    .slices = pipeline.group > 1 ? slices_of_stage : 0};
  const std::size_t micro_batches = is_synchronous(pipeline.schedule) ? pipeline.micro_batches
                                    : pipeline.schedule == PipelineKind::pipedream
                                        ? 1
                                        : pipeline.accumulate;
  stages.samples_an_update = config.train.batch * micro_batches;
  if (config.run.steps == 0) {
    const double run = static_cast<double>(config.train.batch * pipeline.micro_batches);
    const double steps = config.run.epochs * static_cast<double>(samples) / run;
    stages.trainer.steps = static_cast<std::uint64_t>(std::max(1.0, std::round(steps)));
  }
  task.trainer.steps = stages.trainer.steps;
  if (stages.ends.empty()) {
    task.problems.push_back(no_cut(config, task.trainer.model, task.shard->shape));
  } else {
    task.problems = cut_problems(task.trainer.model, task.shard->shape, stages.ends);
  }
  if (pipeline.group > 1 && task.problems.empty()) share(config, stages.ends, task);
  task.stages = std::move(stages);
}

/// Sets aside a random part of the peer's shard for validation, and gives the peer its own
/// hyperparameters.
void join_population(const Config& config, std::size_t shard, Task& task) {
  const PopulationConfig& population = config.population;
  const std::size_t size = task.shard->size();
  if (size < 2) {
    task.problems.push_back({"population.held_out",
                             fmt::format("shard {} has too few samples to hold any out", shard),
                             "use fewer peers or more data"});
    return;
  }
  const double part = population.held_out * static_cast<double>(size);
  const std::size_t kept =
      size - std::clamp<std::size_t>(static_cast<std::size_t>(std::llround(part)), 1, size - 1);
  std::vector<std::uint32_t> order(size);
  std::iota(order.begin(), order.end(), 0U);
  // Peers that share all samples also share the validation samples.
  const bool alike = config.data.partition.kind == PartitionKind::shared;
  Rng(config.run.seed).fork("held out").fork(alike ? 0 : shard).shuffle(std::span(order));
  const std::span<const std::uint32_t> all(order);
  task.held_out = std::make_shared<const DataSet>(task.shard->subset(all.subspan(kept)));
  task.shard = std::make_shared<const DataSet>(task.shard->subset(all.first(kept)));
  OptimizerSpec& optimizer = task.trainer.optimizer;
  double& learning_rate = task.trainer.schedule.learning_rate;
  task.trainer.varied = first_hyperparameters(config_hyperparameters(config), population.spread,
                                              config.run.seed, shard);
  const Hyperparameters& first = task.trainer.varied;
  learning_rate = first.learning_rate;
  optimizer.momentum = has_momentum(optimizer) ? first.momentum : 0;
  if (first.weight_decay > 0) optimizer.weight_decay = first.weight_decay;
}

/// Fills in the fields that do not depend on the model: how the peer works with others, and the
/// budget of a learner with `samples` samples.
void fill_in(const Config& config, std::size_t samples, Task& task) {
  const bool lockstep = config.run.mode == ModeKind::allreduce;
  const double own_batch = task.trainer.varied.batch;
  task.trainer.batch = own_batch > 0 ? static_cast<std::size_t>(own_batch) : config.train.batch;
  task.trainer.steps = steps_of(config, samples);
  task.trainer.follows_swarm = has_swarm_budget(config);
  task.trainer.is_leased = config.data.partition.kind == PartitionKind::leased;
  const std::size_t batch_max = lockstep ? lockstep_batch_max(config) : task.trainer.batch;
  task.trainer.batch_max = batch_max * batch_growth(config).most();
  task.local = config.allreduce.local;
  task.rule = mixing_rule(config);
}

/// Makes a task for `data`, which contains all samples of shard number `shard`. `samples` is the
/// number of samples in all shards.
Task task_on(const Config& config, std::shared_ptr<const DataSet> data, std::size_t shard,
             std::size_t samples) {
  Task task;
  task.trainer.model = model_spec(config.model, outputs_of(config.model, *data));
  task.trainer.model.precision = config.train.precision;
  task.problems = problems_of(config, task.trainer.model, *data);
  if (!task.problems.empty()) return task;
  task.shard = std::move(data);
  task.trainer.optimizer = config.train.optimizer;
  task.trainer.schedule = config.train.schedule;
  task.trainer.threads = config.train.threads;
  if (config.population.is_on()) join_population(config, shard, task);
  if (!task.problems.empty()) return task;
  // In modes `allreduce` and `mixing` all peers take the same number of steps, however unequal
  // their shards are. With the swarm's budget they share the steps.
  const bool in_step = config.run.mode == ModeKind::allreduce ||
                       config.run.mode == ModeKind::mixing || has_swarm_budget(config);
  task.samples = samples;
  fill_in(config, in_step ? samples / config.run.peers : task.shard->size(), task);
  task.trainer.seed = config.run.seed;
  task.trainer.peer = shard;
  if (config.run.mode == ModeKind::pipeline) cut(config, samples, task);
  return task;
}

/// Loads one shard. `pick` gets the shards of all peers and returns the number of the one to load.
Task load_shard(const Config& config, const std::function<std::size_t(const Shards&)>& pick) {
  Dealer dealer(config);
  std::size_t samples = 0;
  std::size_t number = 0;
  const Choose chosen = [&](const DataSet& all) {
    samples = all.size();
    Shards shards = dealer.deal(all);
    // The dealer's problems are reported below.
    if (shards.empty()) return std::vector<std::uint32_t>{};
    number = pick(shards);
    return std::move(shards.at(number));
  };
  LoadedDataSet loaded = load_data(config, false, dealer.needs_inputs() ? Choose{} : chosen);
  if (!loaded.problems.empty()) return {.problems = std::move(loaded.problems)};
  std::shared_ptr<DataSet> data = std::move(loaded.data);
  if (samples == 0) {
    const std::vector<std::uint32_t> kept = chosen(*data);
    data = std::make_shared<DataSet>(data->subset(kept));
  }
  if (!dealer.problems().empty()) return {.problems = dealer.problems()};
  return task_on(config, std::move(data), number, samples);
}

std::string to_text(const SampleShape& shape) {
  return fmt::format("{}x{}x{}", shape[0], shape[1], shape[2]);
}

}  // namespace

Problems problems_of_test(const Config& config, const DataSet& train, const DataSet& test) {
  Problems found;
  if (test.shape != train.shape) {
    found.push_back({"data.test_files",
                     fmt::format("test samples are {}, training samples {}", to_text(test.shape),
                                 to_text(train.shape)),
                     "name files that belong together"});
  }
  const bool is_by_data = config.model.kind != ModelKind::layers;
  const std::size_t of_test = outputs_of(config.model, test);
  const std::size_t of_train = outputs_of(config.model, train);
  // Test data may lack the samples of the last classes.
  const bool fits =
      test.classes > 0 && train.classes > 0 ? of_test <= of_train : of_test == of_train;
  if (is_by_data && !fits) {
    found.push_back({"data.test_files",
                     fmt::format("the test data have {} labels or targets, the training data {}",
                                 of_test, of_train),
                     "name files that belong together"});
  }
  if (!found.empty()) return found;
  return problems_of(config, model_spec(config.model, of_train), test);
}

namespace {

/// Returns the tasks of these peers for training data that stay in files. If there are problems,
/// returns a single task that contains them.
std::vector<Task> tasks_on_files(const Config& config, const std::vector<std::size_t>& peers) {
  LoadedDataSet loaded = open_data(config.data);
  const std::size_t samples = loaded.data ? loaded.data->size() : 0;
  if (loaded.data && samples < config.run.peers) {
    loaded.problems.push_back(too_few_samples(config, samples));
  }
  std::vector<Task> tasks;
  if (!loaded.problems.empty()) {
    tasks.push_back({.problems = std::move(loaded.problems)});
    return tasks;
  }
  for (const std::size_t peer : peers) {
    Task task = task_on(config, loaded.data, peer, samples);
    if (!task.problems.empty()) tasks.clear();
    tasks.push_back(std::move(task));
    if (!tasks.back().problems.empty()) break;
  }
  return tasks;
}

}  // namespace

Task task_of(const Config& config, const Learner& learner, std::uint64_t all_samples) {
  Task task;
  fill_in(config, learner.samples(), task);
  task.samples = all_samples;
  task.trainer.optimizer = config.train.optimizer;
  task.trainer.seed = config.run.seed;
  if (config.run.mode == ModeKind::pipeline) {
    task.problems.push_back(
        {"run.mode",
         "a pipeline cuts the layers of the built-in models, and it cannot see those of a learner "
         "that is not built in",
         "use mode = \"gossip\", \"mixing\" or \"allreduce\""});
  }
  if (config.population.is_on()) {
    task.problems.push_back({"population",
                             "only the built-in learner has hyper-parameters that others can vary",
                             "leave [population] out"});
  }
  if (has_swarm_budget(config) && config.run.steps == 0 && all_samples == 0) {
    task.problems.push_back(
        {"run.epochs", "it is not known how many samples all peers have together",
         "write run.steps, the steps of each peer if all were alike, or budget = \"peer\""});
  }
  if (has_target(config)) {
    task.problems.push_back({"run.target_accuracy",
                             "only the built-in learner is measured on the test data",
                             "leave it out, and end your own loop when it has learned enough"});
  }
  if (config.data.partition.kind == PartitionKind::leased && all_samples == 0) {
    task.problems.push_back({"data.partition",
                             "leased data are dealt by their number, and it is not known how many "
                             "samples there are",
                             "give the number of samples of all data, or write another partition"});
  }
  const bool is_shared_by_speed =
      config.run.mode == ModeKind::allreduce && config.allreduce.shares_by_speed;
  if (is_shared_by_speed && !learner.takes_any_batch()) {
    task.problems.push_back({"allreduce.shares", "a user's loop takes batches of its own size",
                             "write shares = \"equal\", at all peers of the run"});
  }
  if (config.train.schedule.kind == ScheduleKind::growing_batch) {
    task.problems.push_back({"train.schedule", "a user's loop takes batches of its own size",
                             "write another schedule"});
  }
  if (config.train.threads > 1) {
    task.problems.push_back({"train.threads",
                             "only the built-in learner can be run by several threads",
                             "write threads = 1"});
  }
  return task;
}

Task load_task(const Config& config, std::size_t shard) {
  Task task = config.data.in_memory ? load_shard(config, [shard](const Shards&) { return shard; })
                                    : std::move(tasks_on_files(config, {shard}).front());
  if (task.problems.empty() && has_target(config)) {
    TestSet test = load_test_set(config);
    task.test = std::move(test.data);
    task.problems = std::move(test.problems);
    if (task.problems.empty()) task.problems = problems_of_test(config, *task.shard, *task.test);
  }
  return task;
}

Problems problems_with_data(const Config& config) {
  // If any shard has too few samples, the smallest shard does.
  const auto smallest = [](const Shards& shards) {
    return static_cast<std::size_t>(
        std::ranges::min_element(shards, {}, &Shards::value_type::size) - shards.begin());
  };
  const Task task = config.data.in_memory ? load_shard(config, smallest) : load_task(config, 0);
  if (!task.problems.empty()) return task.problems;
  const LoadedDataSet test =
      load_data(config, true, [](const DataSet&) { return std::vector<std::uint32_t>{}; });
  if (!test.problems.empty()) return test.problems;
  return problems_of_test(config, *task.shard, *test.data);
}

std::vector<Task> load_tasks(const Config& config) {
  std::vector<Task> tasks;
  if (!config.data.in_memory) {
    std::vector<std::size_t> all(config.run.peers);
    std::iota(all.begin(), all.end(), std::size_t{0});
    return tasks_on_files(config, all);
  }
  LoadedDataSet loaded = load_data(config, false);
  Dealer dealer(config);
  const Shards shards = loaded.problems.empty() ? dealer.deal(*loaded.data) : Shards{};
  if (shards.empty()) {
    tasks.push_back({.problems = loaded.problems.empty() ? dealer.problems() : loaded.problems});
    return tasks;
  }
  std::shared_ptr<const DataSet> data;
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    if (!data || has_shards(config)) {
      data = std::make_shared<const DataSet>(loaded.data->subset(shards[shard]));
    }
    tasks.push_back(task_on(config, data, shard, loaded.data->size()));
    if (!tasks.back().problems.empty()) return {std::move(tasks.back())};
  }
  return tasks;
}

TestSet load_test_set(const Config& config, std::size_t classes) {
  TestSet test;
  LoadedDataSet loaded = load_data(config, true);
  test.problems = std::move(loaded.problems);
  if (!test.problems.empty()) return test;
  const std::size_t of_test = loaded.data->classes;
  const bool are_known = classes > 0 && of_test > 0 && takes_labels(config.model.loss);
  if (are_known && of_test > classes) {
    test.problems.push_back({"data.test_files",
                             fmt::format("the test data have labels up to {}, and the model has {} "
                                         "classes, beginning with 0",
                                         of_test - 1, classes),
                             "name test data with labels that the training data have, too"});
    return test;
  }
  test.model =
      model_spec(config.model, are_known ? classes : outputs_of(config.model, *loaded.data));
  test.problems = problems_of(config, test.model, *loaded.data);
  test.data = std::move(loaded.data);
  return test;
}

namespace {

/// True if the largest label in the training data decides how many outputs the model has. A text
/// has 256 classes, whatever bytes it contains.
bool follows_labels(const ModelConfig& model) {
  return model.kind != ModelKind::layers && model.kind != ModelKind::transformer &&
         takes_labels(model.loss);
}

}  // namespace

std::size_t classes_in(const Config& config, const std::vector<Tensor>& tensors) {
  if (!follows_labels(config.model)) return 0;
  // In these models, each dense layer and each convolution has two tensors, and the last tensor has
  // the biases of the last layer.
  const std::vector<LayerSpec> layers = model_spec(config.model, 1).layers;
  const auto count = [&](LayerKind kind) {
    return static_cast<std::size_t>(std::ranges::count(layers, kind, &LayerSpec::kind));
  };
  const std::string name = fmt::format("dense{}.bias", count(LayerKind::dense));
  auto biases = std::ranges::find(tensors, name, &Tensor::name);
  // Tensors of another program have other names, and are taken in their order.
  const std::size_t in_all = 2 * (count(LayerKind::dense) + count(LayerKind::conv2d));
  if (biases == tensors.end() && tensors.size() == in_all) biases = std::prev(tensors.end());
  return biases != tensors.end() && biases->shape.size() == 1 ? biases->shape.front() : 0;
}

std::size_t classes_in(const Config& config, const std::vector<std::filesystem::path>& files) {
  if (!follows_labels(config.model)) return 0;
  for (const std::filesystem::path& file : files) {
    const std::size_t classes = classes_in(config, read_safetensors(file).tensors);
    if (classes > 0) return classes;
  }
  return 0;
}

std::string uncertainty(const Score& score, const DataSet& data) {
  if (data.predictions == 1) return {};
  return fmt::format("  perplexity {:.2f}  {:.3f} bits per byte", perplexity(score),
                     bits_per_prediction(score));
}

std::filesystem::path stage_folder(const std::filesystem::path& checkpoints, std::size_t stage) {
  return checkpoints / fmt::format("stage-{}", stage);
}

std::vector<std::filesystem::path> checkpoints_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files = parameter_files(folder / "checkpoints");
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "checkpoints", ignored)) {
    const std::vector<std::filesystem::path> of_stage = parameter_files(entry.path());
    files.insert(files.end(), of_stage.begin(), of_stage.end());
  }
  std::ranges::sort(files, [](const auto& a, const auto& b) { return is_older(b, a); });
  return files;
}

std::unique_ptr<Learner> learner_of(const Task& task, RunTogether together, RunAside aside) {
  return built_in_learner(task.trainer, task.shard, task.held_out, std::move(together),
                          std::move(aside), task.test);
}

std::unique_ptr<StageLearner> stages_of(const Task& task) {
  return built_in_stage_learner(*task.stages, task.shard, task.test);
}

std::unique_ptr<WholeReplica> first_replica(const Task& task, std::size_t shard,
                                            std::unique_ptr<Learner> learner) {
  auto replica = std::make_unique<WholeReplica>(std::move(learner), shard, task.local);
  if (task.rule) replica->mix_by(*task.rule, task.trainer.seed);
  return replica;
}

Problem unfit_checkpoint(const std::filesystem::path& file, const std::string& why) {
  return {
      file.string(), "is a sound checkpoint that does not fit these settings: " + why,
      "give the optimiser and the model their former settings, or start without --resume, which "
      "moves the checkpoints aside, or in another --folder"};
}

namespace {

/// Loads the newest valid checkpoint of a whole model that the replica accepts. If there are valid
/// checkpoints but none fits, reports a problem: the settings differ, and a fresh run would
/// overwrite these checkpoints.
StartingPoint resumed(std::unique_ptr<WholeReplica> replica,
                      const std::filesystem::path& checkpoints) {
  StartingPoint point;
  const LoadedCheckpoint loaded = load_newest_checkpoint(
      checkpoints, [&](const auto&) { return replica->learner().layout(); },
      [&](Checkpoint& checkpoint) {
        return replica->restore({.stage = {},
                                 .parameters = checkpoint.parameters,
                                 .optimizer = std::move(checkpoint.optimizer),
                                 .notes = std::move(checkpoint.metadata)});
      });
  for (const auto& [file, why] : loaded.refused) {
    point.facts.push_back(CheckpointRefused{.why = file.string() + ": " + why});
  }
  if (loaded.checkpoint) {
    point.step = replica->step();
    point.facts.push_back(Resumed{.from = loaded.file.string(), .step = point.step});
  } else if (loaded.unfit) {
    point.problems.push_back(unfit_checkpoint(loaded.unfit->first, loaded.unfit->second));
  } else {
    point.facts.push_back(ResumedFromNothing{.folder = checkpoints.string()});
  }
  point.replica = std::move(replica);
  return point;
}

StartingPoint resumed(std::unique_ptr<StageReplica> replica,
                      const std::filesystem::path& checkpoints) {
  return resumed_stages(std::move(replica), checkpoints);
}

template <class Kind>
StartingPoint start(const Task& task, std::unique_ptr<Kind> replica,
                    const std::filesystem::path& checkpoints, bool resume) {
  ModelFacts model = facts_of(replica->learner(), task.trainer.optimizer);
  model.slices_most = task.slices_most;
  StartingPoint point;
  if (resume) {
    point = resumed(std::move(replica), checkpoints);
  } else {
    point.replica = std::move(replica);
  }
  point.model = std::move(model);
  return point;
}

}  // namespace

StartingPoint starting_point(const Task& task, std::unique_ptr<Learner> learner,
                             const std::filesystem::path& checkpoints, std::size_t shard,
                             bool resume) {
  if (!task.stages) {
    return start(task, first_replica(task, shard, std::move(learner)), checkpoints, resume);
  }
  auto replica = std::make_unique<StageReplica>(stages_of(task));
  if (task.rule) replica->mix_by(*task.rule, task.trainer.seed);
  return start(task, std::move(replica), checkpoints, resume);
}

std::vector<Fact> lost_checkpoints(const StartingPoint& point) {
  const auto is_refusal = [](const Fact& fact) {
    return std::holds_alternative<CheckpointRefused>(fact);
  };
  std::vector<Fact> lost;
  if (std::ranges::none_of(point.facts, is_refusal)) return lost;
  std::ranges::copy_if(point.facts, std::back_inserter(lost), [&](const Fact& fact) {
    return is_refusal(fact) || std::holds_alternative<ResumedFromNothing>(fact);
  });
  return lost;
}

std::map<std::string, std::string> run_metadata(const Config& config,
                                                std::string_view config_text) {
  const std::string& folder = config.data.folder;
  return {{"format", "grapevine"},
          {"config", std::string(config_text)},
          {"peers", std::to_string(config.run.peers)},
          {"data_folder", folder.empty() ? folder : std::filesystem::absolute(folder).string()}};
}

std::string write_model(const std::filesystem::path& file, const Layout& layout,
                        std::span<const float> parameters,
                        const std::map<std::string, std::string>& metadata) {
  std::vector<TensorView> tensors;
  for (const TensorSlot& slot : layout.slots()) {
    tensors.push_back({slot.name, slot.shape, parameters.subspan(slot.offset, slot.size)});
  }
  return write_safetensors(file, tensors, metadata);
}

std::string save_replica(const std::filesystem::path& checkpoints, const Replica& replica,
                         const Config& config, std::string_view config_text) {
  const std::map<std::string, std::string> metadata = run_metadata(config, config_text);
  std::vector<ReplicaPart> parts = replica.parts();
  if (parts.empty()) return {};
  for (ReplicaPart& part : parts) {
    const auto folder = part.stage ? stage_folder(checkpoints, *part.stage) : checkpoints;
    part.notes.insert(metadata.begin(), metadata.end());
    std::string problem = save_checkpoint(folder, *part.layout, part.parameters, part.optimizer,
                                          std::move(part.notes), config.checkpoint.keep);
    if (!problem.empty()) return problem;
  }
  // Stages that this peer no longer has may have abandoned checkpoints too.
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints, ignored)) {
    remove_later_checkpoints(entry.path(), replica.step());
  }
  return {};
}

std::string read_config_text(const std::string& path) {
  if (path.empty()) return std::string(default_config_text());
  if (std::filesystem::is_directory(path)) return {};
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace gv
