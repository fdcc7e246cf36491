// The config of a run: a TOML file, checked strictly and read into a plain struct. All problems are
// reported at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/names.hpp"
#include "base/problems.hpp"
#include "base/time.hpp"
#include "consensus/allreduce/reduce_algorithm.hpp"
#include "consensus/codec/codec.hpp"
#include "consensus/compression/compressor_options.hpp"
#include "consensus/compression/outer_step.hpp"
#include "consensus/mixing/mix_rule.hpp"
#include "consensus/pipeline/router.hpp"
#include "consensus/pipeline/schedule.hpp"
#include "consensus/topology/topology.hpp"
#include "peer/config/config_places.hpp"
#include "peer/modes/exchange_trigger.hpp"
#include "peer/modes/mode_kind.hpp"
#include "peer/modes/stage_choices.hpp"
#include "train/spec.hpp"

namespace gv {

struct BatchGrowth;

/// Whether each peer has its own budget of epochs or steps, or all peers share one.
enum class BudgetKind { peer, swarm };
inline constexpr auto budget_names = names_of<BudgetKind>({"peer", "swarm"});
constexpr std::string_view to_string(BudgetKind kind) { return budget_names[kind]; }

/// The most peers that a run may have.
inline constexpr std::size_t run_peers_max = 4096;

/// [run]: settings of the run as a whole.
struct RunConfig {
  std::uint64_t seed = 1;   ///< Determines the first model, the order of samples and the pairing.
  std::size_t peers = 4;    ///< Number of peers. The training data is cut into one shard for each.
  double epochs = 10;       ///< Passes over the peer's shard. Not used if `steps` is set.
  std::uint64_t steps = 0;  ///< Local steps of each peer; 0 means as many as `epochs` need.
  BudgetKind budget = BudgetKind::swarm;  ///< Ignored in some modes; see has_swarm_budget().
  /// Ends the swarm's run after this time if the budget lasts longer; 0 means never.
  Duration wall{};
  double target = 0;        ///< Ends the swarm's run early at this accuracy or R2; 0 means never.
  double target_every = 1;  ///< Passes over all data between two measurements of the target.
  /// The folder below which events, metrics and checkpoints are written.
  std::string folder = "runs";
  std::uint64_t events_mib = 256;  ///< The most disk space that a peer's event log may take.
  ModeKind mode = ModeKind::gossip;
  /// The named algorithm that gives the other settings their defaults (peer/config/algorithms).
  /// Empty means none.
  std::string algorithm;
  /// Number of peers, including this one, to wait for before training.
  std::size_t wait_for_peers = 1;
  /// Training starts after this time even if fewer than `wait_for_peers` are present.
  Duration wait_max = std::chrono::seconds(20);
  /// How long a peer that has finished continues to serve others.
  Duration linger = std::chrono::seconds(60);

  friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

enum class DataKind { generated, idx, cifar10, csv, text };

/// [data.generated]: the built-in task, Gaussian blobs from a seed, the same on every peer.
struct GeneratedConfig {
  std::size_t samples = 20000;
  std::size_t test_samples = 4000;
  std::size_t features = 32;  ///< Numbers in a sample, or channels of an image.
  std::size_t side = 0;       ///< Side of images; 0 means that samples are flat.
  std::size_t classes = 10;
  std::size_t blobs = 1;    ///< Blobs in each class. If several, no planes separate the classes.
  std::size_t targets = 0;  ///< Numbers to predict instead of a label; 0 means labels.
  /// Standard deviation of the noise around the centres of classes or, with targets, of the noise
  /// in the targets. More noise makes the task harder.
  double noise = 1.0;

  /// Numbers in a sample.
  std::size_t inputs() const { return features * (side > 0 ? side * side : 1); }

  friend bool operator==(const GeneratedConfig&, const GeneratedConfig&) = default;
};

/// [data]: the samples, and how they are divided among the peers.
struct DataConfig {
  DataKind kind = DataKind::generated;
  /// The folder of the data. The parser resolves a relative path against the config file's folder.
  std::string folder;
  /// Files in `folder`. If the config names none, the parser fills in the usual names.
  std::vector<std::string> train_files;
  /// Files in `folder`. For idx: images, then labels. For text without test files, the last tenth
  /// of every training file is held out for testing.
  std::vector<std::string> test_files;
  /// Number of target columns at the end; 0 means that the last column is a label.
  std::size_t csv_targets = 0;
  std::size_t context = 128;  ///< For text: number of bytes in a window.
  double mean = 0;            ///< Subtracted from inputs. Bytes are divided by 255 first.
  double deviation = 1;       ///< Inputs are divided by this after `mean` is subtracted.
  PartitionSpec partition;
  /// For a partition by clusters: the model file with the centres. The parser resolves a relative
  /// path against the config file's folder.
  std::string centres;
  /// For leased data: number of samples in a chunk; 0 means 16 batches.
  std::uint64_t chunk_samples = 0;
  bool in_memory = true;  ///< For leased data: false if the samples stay in their files.
  GeneratedConfig generated;

  friend bool operator==(const DataConfig&, const DataConfig&) = default;
};

enum class ModelKind { linear, mlp, lenet, cnn, transformer, layers };

inline constexpr auto model_names =
    names_of<ModelKind>({"linear", "mlp", "lenet", "cnn", "transformer", "layers"});
constexpr std::string_view to_string(ModelKind kind) { return model_names[kind]; }

/// [model]: the model to train. model_spec() expands it.
struct ModelConfig {
  ModelKind kind = ModelKind::mlp;
  std::vector<std::size_t> hidden = {64, 32};  ///< For mlp: widths of the hidden layers.
  TransformerSpec transformer;
  std::vector<LayerSpec> layers;  ///< For layers: the list, including the output layer.
  /// For lenet and cnn: how convolutions are computed.
  ConvolutionMethod convolution = ConvolutionMethod::automatic;
  LossKind loss = LossKind::cross_entropy;
  WeightValues weights = WeightValues::floats;

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// [train]: how a peer learns.
struct TrainConfig {
  std::size_t batch = 64;
  std::size_t threads = 1;  ///< Number of threads that step at the same time, without locks.
  Precision precision = Precision::float32;
  OptimizerSpec optimizer;
  ScheduleSpec schedule;

  friend bool operator==(const TrainConfig&, const TrainConfig&) = default;
};

enum class LaneKind { automatic, tls, plain, unix_socket };
inline constexpr auto lane_names = names_of<LaneKind>({"auto", "tls", "plain", "unix"});
constexpr std::string_view to_string(LaneKind kind) { return lane_names[kind]; }

/// [gossip]: pair exchanges of peers that each train at their own pace.
struct GossipConfig {
  PairingKind pairing = PairingKind::matching;
  Topology topology;  ///< Partners are neighbours in this topology.
  std::uint64_t period_steps = 16;
  TriggerKind trigger = TriggerKind::steps;
  /// For TriggerKind::spread: the desired distance between two models when they are exchanged.
  double target_spread = 0;
  double alpha = 0.5;
  bool alpha_with_learning_rate = false;
  /// True if a peer whose share of the steps is smaller than its share of the data makes larger
  /// updates. Has an effect only with the swarm's budget; see SwarmWork.
  bool weighs_by_data = true;
  bool centre_rests = false;  ///< True if the first peer of a star only answers exchanges.
  double weigh_max = 4;       ///< The largest factor by which a peer's updates grow.
  Codec codec = Codec::identity;
  double codec_fraction = 0.01;  ///< For top_k: the fraction of the numbers that is sent.
  double clip_radius = 0;  ///< The radius of clipping; 0 means that `clip_factor` determines it.
  double clip_factor = 10;
  double norm_cap = 10;
  Duration answer_deadline = std::chrono::seconds(2);
  Duration progress_deadline = std::chrono::seconds(5);
  Duration quarantine = std::chrono::minutes(5);
  int offences_max = 3;
  std::uint64_t catch_up_periods = 8;

  friend bool operator==(const GossipConfig&, const GossipConfig&) = default;
};

/// [population]: gossip in which one of the worst peers copies one of the best.
struct PopulationConfig {
  std::uint64_t every_steps = 0;  ///< Steps between two validations; 0 means no population.
  double held_out = 0.1;          ///< Fraction of a peer's own samples that is used for validation.
  double spread = 1;  ///< Initial hyperparameters differ from [train] by up to this factor.
  /// How the settings that survive a validation are chosen.
  Selection select = Selection::truncation;
  /// Whether further settings differ between peers, besides the learning rate and the momentum.
  bool vary_weight_decay = false;
  bool vary_batch = false;
  bool vary_alpha = false;
  bool vary_period = false;

  bool is_on() const { return every_steps > 0; }
  friend bool operator==(const PopulationConfig&, const PopulationConfig&) = default;
};

/// [allreduce]: how all peers sum gradients or local steps.
struct AllReduceConfig {
  std::optional<ReduceAlgorithm> algorithm;  ///< Empty means the algorithm predicted to be fastest.
  CompressorOptions compression;
  /// If true, a faster peer takes a larger share of each batch. Otherwise all shares are equal.
  bool shares_by_speed = true;
  std::size_t bucket_elements = 1 << 20;
  LocalSteps local;
  bool noise_scale = false;  ///< True if the gradient noise scale is estimated.

  friend bool operator==(const AllReduceConfig&, const AllReduceConfig&) = default;
};

/// [mixing]: rounds with neighbours. A pipeline whose replicas mix also uses part of the rule.
struct MixingConfig {
  MixRule rule;
  std::uint64_t period_steps = 1;
  std::uint64_t catch_up_rounds = 64;

  friend bool operator==(const MixingConfig&, const MixingConfig&) = default;
};

/// [pipeline]: how the model is cut, and how its stages work.
struct PipelineConfig {
  std::size_t stages = 2;  ///< Number of stages, cut by the estimated cost of layers.
  /// An explicit cut, which lists one past the last layer of each stage; empty if there is none.
  std::vector<std::size_t> ends;
  /// The most memory that a stage may need on a peer, by estimate; 0 means no limit.
  double memory_mb = 0;
  PipelineKind schedule = PipelineKind::one_f_one_b;
  std::size_t micro_batches = 8;
  /// For 2bw: number of micro-batches between two updates. The parser replaces 0 by the number of
  /// stages.
  std::size_t accumulate = 0;
  std::size_t ahead = 1;
  RouterKind router = RouterKind::fixed;
  StageConsensus consensus = StageConsensus::allreduce;
  double mix_alpha = 0.5;
  std::uint64_t mix_every = 1;  ///< Number of pipeline runs between two averagings.
  bool recompute = false;
  std::uint32_t group = 1;  ///< The most peers that work together on one stage.
  StagePlanKind plan = StagePlanKind::steady;
  std::map<std::string, std::uint32_t> pins;  ///< The stages of pinned peers, by name of the peer.
  std::uint64_t copy_every = 8;  ///< Pipeline runs between copies of a stage; 0 means no copies.

  /// The number of stages: that of `ends` if it is given, otherwise `stages`.
  std::size_t stage_count() const { return ends.empty() ? stages : ends.size(); }
  friend bool operator==(const PipelineConfig&, const PipelineConfig&) = default;
};

/// [membership]: how peers find out which peers are alive.
struct MembershipConfig {
  Duration probe_period = std::chrono::seconds(1);
  Duration probe_timeout = std::chrono::milliseconds(500);
  int indirect_probes = 3;
  Duration suspicion_min = std::chrono::milliseconds(3500);
  double suspicion_max_factor = 6;
  Duration push_pull_period = std::chrono::seconds(10);
  Duration forget_dead_after = std::chrono::minutes(10);

  friend bool operator==(const MembershipConfig&, const MembershipConfig&) = default;
};

/// [network]: how data is sent.
struct NetworkConfig {
  bool trusted = false;  ///< True if no stranger can listen. Lanes may then be unencrypted.
  /// Automatic means a Unix socket within one host, otherwise plain if trusted, otherwise TLS.
  LaneKind lane = LaneKind::automatic;
  std::size_t budget_mib = 64;  ///< Memory for blocks in flight, for all lanes together.
  double idle_close_s = 60;     ///< Links and lanes without traffic are closed after this time.

  friend bool operator==(const NetworkConfig&, const NetworkConfig&) = default;
};

/// [checkpoint]: checkpoints on disk.
struct CheckpointConfig {
  std::size_t every_steps = 1000;  ///< Steps between two checkpoints; 0 means only at the end.
  std::size_t keep = 3;            ///< Number of checkpoints to keep. Older ones are deleted.

  friend bool operator==(const CheckpointConfig&, const CheckpointConfig&) = default;
};

/// [metrics]: measurements for people and for Prometheus.
struct MetricsConfig {
  /// Seconds between two lines of output, and between two updates of the metrics file.
  double every_s = 5;

  friend bool operator==(const MetricsConfig&, const MetricsConfig&) = default;
};

/// All settings of a config file, as plain values. A default-constructed Config stands for an empty
/// file. node_options() derives the options of every part from it.
struct Config {
  RunConfig run;
  DataConfig data;
  ModelConfig model;
  TrainConfig train;
  GossipConfig gossip;
  PopulationConfig population;
  AllReduceConfig allreduce;
  MixingConfig mixing;
  PipelineConfig pipeline;
  MembershipConfig membership;
  NetworkConfig network;
  CheckpointConfig checkpoint;
  MetricsConfig metrics;

  friend bool operator==(const Config&, const Config&) = default;
};

/// The result of parsing. `config` may be used only if `problems` is empty.
struct ParsedConfig {
  Config config;
  Problems problems = {};
  /// The places of the settings in the text, for problems that are found later.
  ConfigPlaces places = {};
};

/// Values that override those in a config's text before the config is checked.
struct ConfigOverrides {
  std::string data_folder;  ///< Replaces the folder that the text names, unless it is empty.
  std::optional<std::size_t> peers;  ///< Number of participating peers; nullopt means run.peers.
  bool has_own_data = false;  ///< True if a program provides the data. No files are needed then.
};

/// Reads a file of at most 1 MiB. The data files it names must exist.
ParsedConfig parse_config_file(const std::string& path, const ConfigOverrides& overrides = {});

/// Reads TOML text. `name` stands for the file's name: messages show it, and relative folders are
/// resolved against it.
ParsedConfig parse_config_text(std::string_view text, std::string_view name,
                               const ConfigOverrides& overrides = {});

/// The text of configs/default.toml, which is built into the program. Its task needs no files.
std::string_view default_config_text();
Config default_config();

/// Writes the config as the text of a config file. The text contains the settings that are in use
/// and differ from their defaults, or from those of the named algorithm.
std::string to_toml(const Config& config);

/// Returns the model with `outputs` outputs (classes, or targets). An explicit list of layers is
/// returned unchanged.
ModelSpec model_spec(const ModelConfig& model, std::size_t outputs);

/// True if the replicas of a pipeline's stages mix by the rule in [mixing].
bool mixes_stages(const Config& config);

/// The rule by which models (mode `mixing`) or stages mix; nullopt if nothing mixes.
std::optional<MixRule> mixing_rule(const Config& config);

/// True if all peers share one budget. False for a pipeline, where all peers always make the same
/// runs, and for a population, where each peer has its own model.
bool has_swarm_budget(const Config& config);

/// True if all peers end together, either because they share a budget or because all peers of a
/// pipeline make the same runs.
bool has_common_end(const Config& config);

/// True if the run may end because peers have measured a target accuracy.
bool has_target(const Config& config);
/// The initial hyperparameters of a population's members; 0 for each value that does not vary
/// between members.
Hyperparameters config_hyperparameters(const Config& config);

/// The most samples that any budget may have.
inline constexpr std::uint64_t samples_max = std::uint64_t{1} << 62;

/// `count` rounded to a whole number, which is at least 1 and at most `most`.
std::uint64_t rounded_count(double count, std::uint64_t most);

/// Local steps of a peer with `shard_samples` samples: `steps` if it is set, otherwise the number
/// of steps in `epochs`, rounded, at least 1 and at most those of `samples_max` samples.
std::uint64_t steps_of(const Config& config, std::size_t shard_samples);

/// The most samples that one peer takes in a step of mode `allreduce`. If shares follow speeds, a
/// fast peer takes up to four times the configured batch.
std::size_t lockstep_batch_max(const Config& config);
/// The growth of each peer's batch. Schedules other than `growing_batch` keep the batch constant.
BatchGrowth batch_growth(const Config& config);

/// The settings that all peers of a run must have in common, as pairs of key and value in a fixed
/// order. They include the model, the meaning of its inputs, the seed, pairing and mixing. Except
/// in mode `gossip`, they also include everything that affects a step's result and the number of
/// steps. Peers compare the lists in their hellos, so that a refusal can name the first key that
/// differs.
std::vector<std::pair<std::string, std::string>> agreement(const Config& config);

}  // namespace gv
