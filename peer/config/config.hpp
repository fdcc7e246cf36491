// The config of a run: a TOML file read strictly into one plain struct, all problems at once.
#pragma once

#include <cstddef>
#include <cstdint>
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
#include "peer/modes/exchange_trigger.hpp"
#include "peer/modes/mode_kind.hpp"
#include "peer/modes/stage_consensus.hpp"
#include "train/spec.hpp"

namespace gv {

/// [run]: the run as a whole.
struct RunConfig {
  std::uint64_t seed = 1;          ///< Fixes the first model, the order of samples and the pairing.
  std::size_t peers = 4;           ///< Shards the training data is cut into: one for each peer.
  double epochs = 10;              ///< Passes over the peer's shard; unused when `steps` is set.
  std::uint64_t steps = 0;         ///< Local steps of each peer; 0 = as many as `epochs` need.
  std::string folder = "runs";     ///< Events, metrics and checkpoints go below it.
  std::uint64_t events_mib = 256;  ///< Most that a peer's event log takes on disk.
  ModeKind mode = ModeKind::gossip;
  /// The named algorithm whose settings are the defaults of the others (peer/algorithms); empty:
  /// none.
  std::string algorithm;
  std::size_t wait_for_peers = 1;  ///< Peers to wait for before training, self included.
  /// Training starts after this long with fewer peers, too.
  Duration wait_max = std::chrono::seconds(20);
  Duration linger = std::chrono::seconds(60);  ///< A peer that is done serves others this long.

  friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

enum class DataKind { generated, idx, cifar10, csv, text };

/// [data.generated]: the built-in task, Gaussian blobs of one seed, the same on every peer.
struct GeneratedConfig {
  std::size_t samples = 20000;
  std::size_t test_samples = 4000;
  std::size_t features = 32;
  std::size_t classes = 10;
  double noise = 1.0;  ///< Spread of a class around its centre; more is harder.

  friend bool operator==(const GeneratedConfig&, const GeneratedConfig&) = default;
};

/// [data]: the samples and how the peers share them.
struct DataConfig {
  DataKind kind = DataKind::generated;
  std::string folder;  ///< A relative one is taken from the config file's folder by the parser.
  std::vector<std::string> train_files;  ///< In `folder`; the parser fills in the kind's own names.
  /// In `folder`; idx: images, then labels. text: if there are none, the last tenth of every
  /// training file is for testing.
  std::vector<std::string> test_files;
  std::size_t csv_targets = 0;  ///< Last columns that are targets; 0 = the last one is a label.
  std::size_t context = 128;    ///< text: bytes that a window holds.
  double mean = 0;              ///< Subtracted from inputs, where bytes are first divided by 255.
  double deviation = 1;         ///< Inputs are then divided by this.
  PartitionSpec partition;
  GeneratedConfig generated;

  friend bool operator==(const DataConfig&, const DataConfig&) = default;
};

enum class ModelKind { linear, mlp, lenet, cnn, transformer, layers };

/// [model]: the model that is trained. model_spec() expands it.
struct ModelConfig {
  ModelKind kind = ModelKind::mlp;
  std::vector<std::size_t> hidden = {64, 32};  ///< mlp: widths of the hidden layers.
  TransformerSpec transformer;
  std::vector<LayerSpec> layers;  ///< layers: the list, output layer included.
  LossKind loss = LossKind::cross_entropy;

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// [train]: how one peer learns.
struct TrainConfig {
  std::size_t batch = 64;
  std::size_t threads = 1;  ///< Threads that step at once, without locks.
  OptimizerSpec optimizer;
  ScheduleSpec schedule;

  friend bool operator==(const TrainConfig&, const TrainConfig&) = default;
};

enum class LaneKind { automatic, tls, plain, unix_socket };
inline constexpr auto lane_names = names_of<LaneKind>({"auto", "tls", "plain", "unix"});
constexpr std::string_view to_string(LaneKind kind) { return lane_names[kind]; }

/// [gossip]: pair exchanges, each peer at its own pace.
struct GossipConfig {
  PairingKind pairing = PairingKind::matching;
  Topology topology;  ///< Partners are neighbours in it.
  std::uint64_t period_steps = 16;
  TriggerKind trigger = TriggerKind::steps;
  double target_spread = 0;  ///< TriggerKind::spread: wanted distance of two models that meet.
  double alpha = 0.5;
  bool alpha_with_learning_rate = false;
  Codec codec = Codec::identity;
  double clip_radius = 0;  ///< 0: by `clip_factor`.
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
  std::uint64_t every_steps = 0;  ///< Between two validations; 0 = no population.
  double held_out = 0.1;          ///< Part of a peer's own samples used for validation.
  double spread = 1;              ///< Hyper-parameters begin up to this factor apart from [train].

  bool is_on() const { return every_steps > 0; }
  friend bool operator==(const PopulationConfig&, const PopulationConfig&) = default;
};

/// [allreduce]: how a swarm sums gradients or local steps.
struct AllReduceConfig {
  std::optional<ReduceAlgorithm> algorithm;  ///< Empty: the one predicted to be the fastest.
  CompressorOptions compression;
  std::size_t bucket_elements = 1 << 20;
  LocalSteps local;

  friend bool operator==(const AllReduceConfig&, const AllReduceConfig&) = default;
};

/// [mixing]: rounds with neighbours. A pipeline whose replicas mix uses part of the rule too.
struct MixingConfig {
  MixRule rule;
  std::uint64_t period_steps = 1;
  std::uint64_t catch_up_rounds = 64;

  friend bool operator==(const MixingConfig&, const MixingConfig&) = default;
};

/// [pipeline]: the cut of the model, and how its stages are worked.
struct PipelineConfig {
  std::size_t stages = 2;  ///< Number of stages, cut by the estimated cost of layers.
  /// If not empty, the cut itself: one past the last layer of each stage.
  std::vector<std::size_t> ends;
  double memory_mb = 0;  ///< No stage is estimated to need more of a peer; 0 = no limit.
  PipelineKind schedule = PipelineKind::one_f_one_b;
  std::size_t micro_batches = 8;
  std::size_t accumulate = 0;  ///< 2bw; the parser writes 0 as the number of stages.
  std::size_t ahead = 1;
  RouterKind router = RouterKind::fixed;
  StageConsensus consensus = StageConsensus::allreduce;
  double mix_alpha = 0.5;
  std::uint64_t mix_every = 1;  ///< Runs between two averagings.
  bool recompute = false;
  std::uint64_t copy_every = 8;  ///< Runs between two copies; 0 = never.

  /// Number of stages of either cut.
  std::size_t stage_count() const { return ends.empty() ? stages : ends.size(); }
  friend bool operator==(const PipelineConfig&, const PipelineConfig&) = default;
};

/// [membership]: how peers find out who is alive.
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

/// [network]: how bytes travel.
struct NetworkConfig {
  bool trusted = false;  ///< No stranger can listen in: lanes may go unencrypted.
  LaneKind lane =
      LaneKind::automatic;      ///< Unix socket on one host, else plain if trusted, else TLS.
  std::size_t budget_mib = 64;  ///< Memory for blocks on their way, all lanes together.
  double idle_close_s = 60;     ///< Links and lanes without traffic are closed after this.

  friend bool operator==(const NetworkConfig&, const NetworkConfig&) = default;
};

/// [checkpoint]: the checkpoints kept on disk.
struct CheckpointConfig {
  std::size_t every_steps = 1000;  ///< 0 = only at the end.
  std::size_t keep = 3;            ///< Older ones are deleted.

  friend bool operator==(const CheckpointConfig&, const CheckpointConfig&) = default;
};

/// [metrics]: measurements for people and for Prometheus.
struct MetricsConfig {
  double every_s = 5;  ///< Between two lines, and between two rewrites of the metrics file.

  friend bool operator==(const MetricsConfig&, const MetricsConfig&) = default;
};

/// Everything a config file can say, as plain values; default-constructed, an empty file.
/// node_options() makes the options of every part from it.
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

/// `config` may be used only when `problems` is empty.
struct ParsedConfig {
  Config config;
  Problems problems;
};

/// Reads a file of at most 1 MiB. Its data files must exist.
ParsedConfig parse_config_file(const std::string& path);

/// Reads TOML text; `name` stands for the file in messages, and its folder for the file's folder.
/// `data_folder`, if given, replaces the data folder that the text names.
ParsedConfig parse_config_text(std::string_view text, std::string_view name,
                               std::string_view data_folder = {});

/// configs/default.toml, built into the program: a generated task that needs no files.
std::string_view default_config_text();
Config default_config();

/// The settings that count and differ from the defaults, or from those of the named algorithm, as
/// the text of a config file that is read as this config.
std::string to_toml(const Config& config);

/// The model with `outputs` outputs (classes, or targets). An explicit list is returned as it is.
ModelSpec model_spec(const ModelConfig& model, std::size_t outputs);

/// Replicas of a pipeline's stages mix by the rule in [mixing].
bool mixes_stages(const Config& config);

/// The rule by which models mix, in mode `mixing`, or stages; empty if nothing mixes.
std::optional<MixRule> mixing_rule(const Config& config);

/// Local steps of a peer whose shard has `shard_samples` samples: `steps`, or the steps of
/// `epochs`, rounded to the nearest and at least 1.
std::uint64_t steps_of(const Config& config, std::size_t shard_samples);

/// Most samples that one peer takes in a step of mode `allreduce`: a fast one does the work of up
/// to four.
std::size_t lockstep_batch_max(const Config& config);

/// Every setting that peers of one run must have in common, as (key, value), in a fixed order: the
/// model, the meaning of its inputs, the seed, pairing and mixing; in mode `allreduce` also all
/// that decides a step's result and the number of steps. Compared at hello, so that a refusal can
/// name the first key that differs.
std::vector<std::pair<std::string, std::string>> agreement(const Config& config);

}  // namespace gv
