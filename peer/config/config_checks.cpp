// Checks settings together, to find combinations that make no sense.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.hpp"
#include "consensus/compression/compressors.hpp"
#include "consensus/gossip/pair_memories.hpp"
#include "consensus/mixing/stability.hpp"
#include "consensus/topology/graphs.hpp"
#include "consensus/topology/pairs.hpp"
#include "peer/config/config_reading.hpp"
#include "peer/config/config_settings.hpp"
#include "peer/config/generated_problems.hpp"
#include "peer/config/group_problems.hpp"
#include "peer/config/plan_problems.hpp"

namespace gv {
namespace {

std::string shown_name(TopologyKind kind) { return "\"" + std::string(to_string(kind)) + "\""; }

void check_effects(ConfigReading& reading) {
  for (const Setting<Config>& setting : config_settings()) {
    const std::string path = setting.path();
    if (setting.counts(reading.parsed.config) || !reading.is_given(path)) continue;
    if (!reading.is_sound(setting.condition.key)) continue;
    reading.report(path, "has no effect here",
                   "remove it; it counts with " + setting.condition.words);
  }
}

/// Checks the settings that a growing batch needs. The growth depends on the number of samples that
/// all peers have trained on, so they must share a budget.
void check_growth(ConfigReading& reading) {
  const Config& config = reading.parsed.config;
  const ScheduleSpec& schedule = config.train.schedule;
  if (schedule.kind != ScheduleKind::growing_batch) return;
  const std::string path = "train.schedule";
  if (!has_swarm_budget(config) && reading.is_sound("run.budget") && reading.is_sound("run.mode")) {
    reading.report(path,
                   "a batch grows by the samples that all peers have trained on, which are "
                   "counted only where they share a budget, outside of pipelines and populations",
                   "write schedule = \"step\", or budget = \"swarm\" below [run]");
  }
  if (config.data.partition.kind == PartitionKind::leased && reading.is_sound("data.partition")) {
    reading.report(path, "leases of data are of batches that stay as they are",
                   "write schedule = \"step\", or another partition below [data]");
  }
  if (config.train.threads > 1 && reading.is_sound("train.threads")) {
    reading.report(path, "the threads of one peer keep their batches",
                   "write threads = 1, or schedule = \"step\"");
  }
  if (schedule.reference_batch > 0 && reading.is_sound("train.reference_batch")) {
    reading.report("train.reference_batch",
                   "the rate would grow with the batch, which then would change nothing",
                   "leave it out, or write schedule = \"step\"");
  }
  constexpr std::size_t batch_max = 65536;
  std::size_t largest = config.train.batch;
  const std::size_t growths = std::min(schedule.batch_growths, schedule.step_at.size());
  for (std::size_t i = 0; i < growths && largest <= batch_max; ++i) {
    largest *= schedule.batch_factor;
  }
  if (largest > batch_max && reading.is_sound("train.batch_factor")) {
    reading.report("train.batch_growths",
                   fmt::format("the batch grows to {} samples; a peer computes at most {} at once",
                               largest, batch_max),
                   "let it grow less often, or by a smaller factor");
  }
}

void check_steps(ConfigReading& reading) {
  const ScheduleSpec& schedule = reading.parsed.config.train.schedule;
  const std::vector<std::size_t>& at = schedule.step_at;
  const bool grows = schedule.kind == ScheduleKind::growing_batch;
  if (schedule.kind != ScheduleKind::step && !grows) return;
  if (at.empty() && reading.is_sound("train.step_at")) {
    reading.report(
        "train.schedule",
        fmt::format("\"{}\" needs the steps to change at", grows ? "growing_batch" : "step"),
        "add step_at = [1000, 2000]");
  }
  if (!std::is_sorted(at.begin(), at.end(), std::less_equal<>())) {
    reading.report("train.step_at", "not rising", "sort the list");
  }
}

void check_model(ConfigReading& reading) {
  if (!reading.is_sound("model.kind")) return;
  const bool by_list = reading.parsed.config.model.kind == ModelKind::layers;
  if (by_list && !reading.is_given("model.layers")) {
    reading.report("model.kind", "\"layers\" without a list",
                   "add [[model.layers]] tables, or name a model as kind = \"mlp\"");
  }
  if (!by_list && reading.is_given("model.layers")) {
    reading.report("model.layers", "has no effect here",
                   "remove the list; it counts with kind = \"layers\"");
  }
}

void check_text(ConfigReading& reading) {
  const Config& config = reading.parsed.config;
  const ModelConfig& model = config.model;
  const bool is_text = config.data.kind == DataKind::text;
  const PartitionKind dealt = config.data.partition.kind;
  // Both are 0 for other kinds of data.
  const bool has_targets = config.data.csv_targets + config.data.generated.targets > 0;
  if ((is_text || has_targets) && reading.is_sound("data.partition") &&
      (dealt == PartitionKind::dirichlet || dealt == PartitionKind::by_label)) {
    reading.report("data.partition",
                   std::string(is_text ? "a text has" : "data with targets have") +
                       " no labels to deal out by",
                   "write partition = \"iid\" or \"shared\"");
  }
  if (is_text && reading.is_sound("data.partition") && dealt == PartitionKind::clusters) {
    reading.report("data.partition", "ids of a text are names, and have no distance to centres",
                   "write partition = \"iid\" or \"shared\"");
  }
  if (dealt == PartitionKind::clusters && config.data.centres.empty() &&
      reading.is_sound("data.centres")) {
    reading.report("data.partition", "no centres to deal out by",
                   "add centres = \"/path/to/mean.safetensors\" of a k-means, as that of "
                   "configs/ca-svm-centres.toml");
  }
  if (model.kind != ModelKind::transformer) return;
  if (!is_text && reading.is_sound("data.kind")) {
    reading.report("model.kind", "a transformer learns text",
                   "write kind = \"text\" below [data], or name another model");
  }
  if (model.transformer.width % model.transformer.heads != 0 && reading.is_sound("model.width") &&
      reading.is_sound("model.heads")) {
    reading.report(reading.line_of(reading.is_given("model.heads") ? "model.heads" : "model.width"),
                   "model.heads",
                   std::to_string(model.transformer.heads) + " heads do not divide the width of " +
                       std::to_string(model.transformer.width),
                   "choose a divisor");
  }
}

void check_membership(ConfigReading& reading) {
  const MembershipConfig& membership = reading.parsed.config.membership;
  if (membership.probe_timeout < membership.probe_period ||
      !reading.is_sound("membership.probe_timeout_s") ||
      !reading.is_sound("membership.probe_period_s")) {
    return;
  }
  const std::string path = reading.is_given("membership.probe_timeout_s")
                               ? "membership.probe_timeout_s"
                               : "membership.probe_period_s";
  reading.report(path, "the probe timeout is not shorter than the probe period",
                 "make probe_timeout_s about half of probe_period_s");
}

/// Checks the trigger of exchanges. Drawn pairs meet in rounds, and only with the trigger "steps"
/// do all peers count the same rounds.
void check_trigger(ConfigReading& reading) {
  const GossipConfig& gossip = reading.parsed.config.gossip;
  if (reading.parsed.config.run.mode != ModeKind::gossip || gossip.trigger == TriggerKind::steps)
    return;
  if (gossip.pairing != PairingKind::uniform) {
    reading.report("gossip.trigger",
                   "drawn pairs meet in rounds, which only \"steps\" counts alike on all peers",
                   "write pairing = \"uniform\", or trigger = \"steps\"");
  }
  if (gossip.trigger == TriggerKind::spread && gossip.target_spread == 0) {
    reading.report("gossip.trigger", "no spread to aim at",
                   "add target_spread, such as the spread that status shows of a run by steps");
  }
}

/// Checks exchanges that encode differences. Each peer must then remember a model for each partner.
void check_pair_memories(ConfigReading& reading) {
  const Config& config = reading.parsed.config;
  const GossipConfig& gossip = config.gossip;
  const bool needs_memory = bytes_per_element(gossip.codec) == 0;
  if (config.run.mode != ModeKind::gossip || !needs_memory) return;
  if (gossip.alpha > 0.5 && reading.is_sound("gossip.alpha")) {
    reading.report("gossip.alpha",
                   fmt::format("with this codec models move by {} times what partners remember "
                               "wrongly, and run apart above 0.5",
                               gossip.alpha),
                   "write alpha = 0.5 or less, or codec = \"fp16\"");
  }
  const std::size_t partners = config.run.peers - 1;
  const bool can_meet_all = gossip.topology.kind == TopologyKind::complete;
  if (can_meet_all && partners > PairMemories::partners_max && reading.is_sound("run.peers") &&
      reading.is_sound("gossip.topology")) {
    reading.report("gossip.codec",
                   fmt::format("each peer would meet {} others, and remembers a model for {}",
                               partners, PairMemories::partners_max),
                   "write topology = \"exponential\", or codec = \"fp16\"");
  }
}

/// Checks the topology of pair exchanges against the run's number of peers.
void check_topology(ConfigReading& reading) {
  const GossipConfig& gossip = reading.parsed.config.gossip;
  const TopologyKind kind = gossip.topology.kind;
  if (reading.parsed.config.run.mode != ModeKind::gossip) return;
  if (!reading.is_sound("gossip.topology") || !reading.is_sound("gossip.topology_degree")) return;
  const bool by_degree = reading.is_given("gossip.topology_degree");
  const std::string path = by_degree ? "gossip.topology_degree" : "gossip.topology";
  if (const auto problem = problem_with_pairs(gossip.topology)) {
    return reading.report(path, problem->place + ": " + problem->reason, problem->remedy);
  }
  if (gossip.pairing == PairingKind::uniform && !is_graph(kind)) {
    return reading.report("gossip.topology",
                          shown_name(kind) +
                              " says who meets whom in each round, and with pairing = "
                              "\"uniform\" there are no rounds",
                          "write pairing = \"matching\", or a topology such as \"exponential\"");
  }
  if (!reading.is_sound("run.peers")) return;
  if (const auto problem = problem_of(gossip.topology, reading.parsed.config.run.peers)) {
    reading.report(path, problem->place + ": " + problem->reason, problem->remedy);
  }
}

/// Checks that the other settings allow a population to vary the chosen hyperparameters.
void check_varied(ConfigReading& reading) {
  const Config& config = reading.parsed.config;
  const PopulationConfig& population = config.population;
  if (population.vary_weight_decay && config.train.optimizer.weight_decay == 0 &&
      reading.is_sound("train.weight_decay")) {
    reading.report("population.vary_weight_decay", "no factor changes a weight decay of 0",
                   "write weight_decay = 0.0001 or so below [train]");
  }
  if (population.vary_batch && config.train.threads > 1 && reading.is_sound("train.threads")) {
    reading.report("population.vary_batch", "the threads of one peer keep their batches",
                   "write threads = 1");
  }
  const bool has_force = config.gossip.alpha > 0 && config.gossip.alpha <= 0.5;
  if (population.vary_alpha && !has_force && reading.is_sound("gossip.alpha")) {
    reading.report("population.vary_alpha",
                   fmt::format("no factor makes an alpha of 0 larger, and above 0.5 models can run "
                               "apart; it is {}",
                               config.gossip.alpha),
                   "write alpha = 0.25 or so below [gossip]");
  }
  const bool counts_rounds = config.gossip.pairing != PairingKind::uniform;
  if (population.vary_period && counts_rounds && reading.is_sound("gossip.pairing")) {
    reading.report("population.vary_period",
                   "drawn pairs meet in rounds, which all peers must count alike",
                   "write pairing = \"uniform\" below [gossip]");
  }
}

/// Checks the settings of a population. Every peer has its own learning rate, so only gossip works.
void check_population(ConfigReading& reading) {
  const Config& config = reading.parsed.config;
  if (!config.population.is_on() || !reading.is_sound("run.mode")) return;
  const std::string path = "population.every_steps";
  const ModeKind mode = config.run.mode;
  if (mode != ModeKind::gossip) {
    const std::string reason =
        mode == ModeKind::allreduce  ? "in lockstep all make the same step, with one learning rate"
        : mode == ModeKind::pipeline ? "in a pipeline no peer has a whole model to be judged by"
                                     : "a round mixes models by one rule that goes by one "
                                       "learning rate";
    reading.report(path, reason, "write mode = \"gossip\" below [run], or leave it out");
  }
  check_varied(reading);
  if (config.population.select != Selection::truncation && config.population.spread == 1 &&
      reading.is_sound("population.spread")) {
    reading.report("population.spread",
                   "all peers would begin with the same settings, and none varies them",
                   "write spread = 8 or so, or select = \"truncation\"");
  }
  if (config.run.budget == BudgetKind::swarm && reading.is_given("run.budget") &&
      reading.is_sound("run.budget")) {
    reading.report("run.budget",
                   "peers of a population try different settings, and the mean of their models is "
                   "none of them",
                   "write budget = \"peer\", or leave out population.every_steps");
  }
  if (config.gossip.alpha_with_learning_rate && reading.is_sound("gossip.alpha_schedule")) {
    reading.report(
        "gossip.alpha_schedule",
        "in a population every peer has a learning rate of its own, and no two would agree",
        "write alpha_schedule = \"constant\"");
  }
}

/// Checks the settings for leased data. Leases are parts of a budget that all peers share.
void check_leases(ConfigReading& reading) {
  const Config& config = reading.parsed.config;
  if (config.data.partition.kind != PartitionKind::leased) return;
  if (!has_swarm_budget(config) && reading.is_sound("run.budget") && reading.is_sound("run.mode")) {
    reading.report(
        "data.partition",
        "leased data are worked off by all peers together, and here each peer or stage "
        "has its own part",
        "write partition = \"shared\", or budget = \"swarm\" below [run] in another mode "
        "than pipeline");
  }
  if (config.run.mode == ModeKind::mixing && !is_in_step(config.mixing.rule) &&
      reading.is_sound("mixing.staleness")) {
    reading.report("data.partition",
                   "peers that mix without waiting do not know what part of a round is theirs",
                   "write mode = \"gossip\" below [run], or staleness = 0 below [mixing]");
  }
  if (config.data.chunk_samples % config.train.batch != 0 && reading.is_sound("train.batch")) {
    reading.report("data.chunk_samples",
                   fmt::format("a chunk of {} samples is no whole number of batches of {}",
                               config.data.chunk_samples, config.train.batch),
                   fmt::format("write {}", (config.data.chunk_samples / config.train.batch + 1) *
                                               config.train.batch));
  }
}

/// Checks the settings for data that stay in files, which one thread reads in blocks.
void check_data_in_files(ConfigReading& reading) {
  const Config& config = reading.parsed.config;
  const DataConfig& data = config.data;
  if (data.in_memory || data.partition.kind != PartitionKind::leased) return;
  const std::string path = "data.in_memory";
  if (!reading.is_sound("data.kind")) return;
  if (data.kind == DataKind::generated) {
    reading.report(path, "generated data are in no file from which they could be read",
                   "write in_memory = true, or another kind");
  }
  if (data.kind == DataKind::text && data.test_files.empty() &&
      reading.is_sound("data.test_files")) {
    reading.report(path,
                   "the last tenth of each training file would be held out for testing, and test "
                   "data are in memory",
                   "name test_files, or write in_memory = true");
  }
  if (config.train.threads > 1 && reading.is_sound("train.threads")) {
    reading.report("train.threads", "data that stay in files are read for one thread",
                   "write threads = 1, or in_memory = true below [data]");
  }
}

/// Checks the settings for several threads. Their steps have no order, so some modes cannot use
/// them.
void check_threads(ConfigReading& reading) {
  const Config& config = reading.parsed.config;
  if (config.train.threads == 1) return;
  const std::string path = "train.threads";
  if (config.run.mode != ModeKind::gossip && reading.is_sound("run.mode")) {
    reading.report(
        path,
        "steps without locks have no order, and what others are told of each in this mode "
        "would not be what was done",
        "write threads = 1, or mode = \"gossip\" below [run]");
  }
  if (config.train.optimizer.kind != OptimizerKind::sgd && reading.is_sound("train.optimizer")) {
    reading.report(
        "train.optimizer",
        "momentum and moments are of one sequence of gradients, and threads that step at once "
        "make several",
        "write optimizer = \"sgd\", or threads = 1");
  }
}

/// Checks for all-reduce settings that exclude each other. For example, compressed pieces must be
/// passed on unchanged, which only the ring does.
void check_ring(ConfigReading& reading) {
  const AllReduceConfig& allreduce = reading.parsed.config.allreduce;
  if (allreduce.compression.momentum > 0 && reading.parsed.config.run.mode == ModeKind::allreduce &&
      reading.is_sound("allreduce.momentum")) {
    if (reading.parsed.config.train.optimizer.kind != OptimizerKind::sgd &&
        reading.is_sound("train.optimizer")) {
      reading.report("train.optimizer", "allreduce.momentum is one already, and two would add up",
                     "write optimizer = \"sgd\"");
    }
    if (allreduce.local.period > 1) {
      reading.report("allreduce.period",
                     "allreduce.momentum is of gradients, and what local steps come to is none",
                     "write period = 1, or leave momentum out");
    }
  }
  const bool is_local = allreduce.local.period > 1;
  const bool is_whole = allreduce.compression == CompressorOptions{};
  if (allreduce.noise_scale && (is_local || !is_whole)) {
    reading.report("allreduce.noise_scale",
                   "it is estimated from the lengths of whole gradients, and here others travel",
                   "leave it out, or write period = 1 and leave out what makes gradients shorter");
  }
  for (Problem& problem : problems_of(allreduce.compression, is_local)) {
    const std::string setting = "allreduce." + problem.place;
    reading.report(setting, std::move(problem.reason), std::move(problem.remedy));
  }
  const bool plain = make_compressor(allreduce.compression, 0)->wire().is_plain();
  if (plain || !allreduce.algorithm || *allreduce.algorithm == ReduceAlgorithm::ring) return;
  reading.report(
      "allreduce.algorithm",
      "codec and top_k_per_512 need the ring, where final pieces are passed on as they came",
      "write algorithm = \"ring\" or \"auto\", or leave codec and top_k_per_512 out");
}

/// Returns the number of peers that carry the same stage and mix with each other, if all stages
/// take equal time. A slower stage has more peers.
std::size_t replicas(const Config& config) {
  const bool both_ways = config.pipeline.schedule == PipelineKind::chimera;
  const std::size_t chain =
      std::max<std::size_t>(1, config.pipeline.stage_count() / (both_ways ? 2 : 1));
  return std::max<std::size_t>(2, (config.run.peers + chain - 1) / chain);
}

void check_pipeline(ConfigReading& reading) {
  PipelineConfig& pipeline = reading.parsed.config.pipeline;
  if (reading.parsed.config.run.mode != ModeKind::pipeline) return;
  const std::size_t stages = pipeline.stage_count();
  // A peer that sets the number explicitly must agree with a peer that sets 0.
  if (pipeline.schedule == PipelineKind::two_bw && pipeline.accumulate == 0)
    pipeline.accumulate = stages;
  // Checks a single chain, because the real chains are not known yet.
  Problems found = problems(pipeline.schedule, straight_routes(stages, pipeline.micro_batches),
                            stages, pipeline.accumulate);
  if (!is_synchronous(pipeline.schedule) && pipeline.router != RouterKind::fixed) {
    found.push_back({std::string(to_string(pipeline.schedule)),
                     "its parameters have versions, which only fixed chains agree on",
                     "write router = \"fixed\", or schedule = \"1f1b\""});
  }
  for (Problem& problem : found) {
    reading.report("pipeline.schedule", problem.place + ": " + problem.reason,
                   std::move(problem.remedy));
  }
}

void report_all(ConfigReading& reading, Problems found) {
  for (Problem& problem : found) {
    reading.report(problem.place, std::move(problem.reason), std::move(problem.remedy));
  }
}

void check_plan(ConfigReading& reading) {
  const Config& config = reading.parsed.config;
  if (config.run.mode != ModeKind::pipeline) return;
  const bool is_planned = config.pipeline.plan == StagePlanKind::automatic;
  if (is_planned) report_all(reading, plan_problems(config));
  const bool is_cut = reading.is_sound("pipeline.stages") && reading.is_sound("pipeline.ends");
  if (is_cut) report_all(reading, pin_problems(config));
}

void check_groups(ConfigReading& reading) {
  const Config& config = reading.parsed.config;
  report_all(reading, split_problems(config));
  if (config.run.mode != ModeKind::pipeline || config.pipeline.group == 1) return;
  report_all(reading, group_problems(config));
}

/// Checks the settings of mixing against each other and against the number of peers in the run.
void check_mixing(ConfigReading& reading) {
  const Config& config = reading.parsed.config;
  const bool in_stages = mixes_stages(config);
  const std::size_t peers = in_stages ? replicas(config) : config.run.peers;
  const std::optional<MixRule> rule = mixing_rule(config);
  if (!rule || !reading.is_sound("run.peers")) return;
  if (in_stages && rule->topology.kind == TopologyKind::hosts) {
    return reading.report("mixing.topology", "replicas of a stage do not know each other's hosts",
                          "write topology = \"complete\"");
  }
  // The place of each problem is a key of the section, without the section's name.
  for (const Problem& problem : problems_of(*rule, peers)) {
    const std::string path = "mixing." + problem.place;
    if (!reading.is_sound(path)) continue;
    // The usual remedy could suggest a memory, which stages do not have.
    const bool by_codec = in_stages && problem.place == "codec";
    reading.report(path, problem.reason,
                   by_codec ? "write codec = \"fp16\", \"bf16\" or \"qsgd\"" : problem.remedy);
  }
  if (in_stages) return;
  const MixTraits traits = traits_of(*rule);
  const std::string correction(to_string(rule->correction));
  if (traits.plain_steps && config.train.optimizer.kind != OptimizerKind::sgd &&
      reading.is_sound("train.optimizer")) {
    reading.report("train.optimizer",
                   "\"" + correction + "\" has a momentum of its own, and two would add up",
                   "write optimizer = \"sgd\"");
  }
  if (traits.one_by_one && config.mixing.period_steps != 1 &&
      reading.is_sound("mixing.period_steps")) {
    reading.report("mixing.period_steps", "\"" + correction + "\" mixes what every step comes to",
                   "write period_steps = 1");
  }
}

/// The effective step of a round, which consensus/mixing/stability bounds for plain gradient
/// descent on a loss of curvature 1. Data with unit variance typically have such a loss.
double pull_of_round(const Config& config, std::uint64_t steps) {
  return pull_of(config.train.schedule.learning_rate, steps);
}

/// True if plain descent by itself diverges on a loss of curvature 1. The bounds on pulls do not
/// catch this, because an even number of such steps restores the sign.
bool is_beyond_descent(const Config& config) { return config.train.schedule.learning_rate >= 2; }

/// Reports the learning rate if the effective step of a round of `steps` steps is `bound` or more,
/// or if plain descent diverges.
void check_pull(ConfigReading& reading, std::uint64_t steps, double bound, std::string reason) {
  const Config& config = reading.parsed.config;
  if (pull_of_round(config, steps) < bound && !is_beyond_descent(config)) return;
  const double most = rate_of(bound, steps);
  reading.report("train.learning_rate",
                 fmt::format("{}, and with {} a round plain descent on a curvature of 1 runs "
                             "apart from {:.3g} on",
                             reason, counted(steps, "step"), most),
                 fmt::format("write learning_rate = {:.2g} or less{}", 0.9 * most,
                             steps == 1 ? "" : ", or a shorter period_steps below [mixing]"));
}

/// Checks the centre of exchanges in pairs, and that alpha is not too large for its workers.
void check_centre(ConfigReading& reading) {
  const Config& config = reading.parsed.config;
  const GossipConfig& gossip = config.gossip;
  if (config.run.mode != ModeKind::gossip || !gossip.centre_rests) return;
  if (gossip.topology.kind != TopologyKind::star) return;  // Another check reports this.
  if (gossip.pairing != PairingKind::uniform && reading.is_sound("gossip.pairing")) {
    reading.report("gossip.pairing", "drawn pairs are of rounds, and a centre that rests has none",
                   "write pairing = \"uniform\"");
  }
  if (config.data.partition.kind == PartitionKind::leased && reading.is_sound("data.partition")) {
    reading.report("data.partition", "a centre that rests leaves its leases to nobody",
                   "write partition = \"shared\"");
  }
  if (config.train.optimizer.kind != OptimizerKind::sgd) return;
  if (is_beyond_descent(config) && reading.is_sound("train.learning_rate")) {
    reading.report("train.learning_rate",
                   "plain descent on a curvature of 1 runs apart from 2 on, and no centre holds it",
                   "write learning_rate = 1 or less");
    return;
  }
  const double pull = pull_of_round(config, gossip.period_steps);
  const double most = largest_elastic_alpha(pull);
  if (gossip.alpha <= most || !reading.is_sound("gossip.alpha")) return;
  reading.report("gossip.alpha",
                 fmt::format("workers that pull at a centre in turn run apart above {:.3g}, with "
                             "{} steps of plain descent between two exchanges on a curvature of 1",
                             most, gossip.period_steps),
                 fmt::format("write alpha = {:.2g} or less", 0.9 * most));
}

/// Checks the learning rate for rules whose delays or frozen pieces limit it.
void check_stability(ConfigReading& reading) {
  const Config& config = reading.parsed.config;
  if (config.run.mode != ModeKind::mixing || config.train.optimizer.kind != OptimizerKind::sgd ||
      !reading.is_sound("train.learning_rate") || !reading.is_sound("mixing.period_steps")) {
    return;
  }
  const MixRule& rule = config.mixing.rule;
  const std::size_t peers = config.run.peers;
  const std::uint64_t steps = config.mixing.period_steps;
  if (rule.kind == MixKind::downpour && !is_in_step(rule)) {
    const std::uint64_t delay = delay_of_changes(rule.topology.kind, peers);
    check_pull(reading, steps, largest_delayed_pull(delay),
               fmt::format("changes are {} others late in the mean where {} peers do not wait",
                           delay, peers));
  }
  if (rule.fragment_order == FragmentOrder::own) {
    const std::size_t slices = std::max<std::size_t>(1, std::min(rule.fragments, peers));
    check_pull(reading, steps, largest_sliced_pull(slices),
               fmt::format("{} slices train while the others are frozen", slices));
  }
}

void check_network(ConfigReading& reading) {
  const NetworkConfig& network = reading.parsed.config.network;
  if (network.lane != LaneKind::plain || network.trusted || !reading.is_sound("network.trusted"))
    return;
  reading.report("network.lane", "\"plain\" on a network that is not trusted",
                 "write trusted = true if nobody can listen in, else lane = \"tls\"");
}

}  // namespace

void check_together(ConfigReading& reading) {
  check_effects(reading);
  report_all(reading, generated_problems(reading.parsed.config));
  check_steps(reading);
  check_growth(reading);
  check_model(reading);
  check_text(reading);
  check_membership(reading);
  check_topology(reading);
  check_trigger(reading);
  check_pair_memories(reading);
  check_population(reading);
  check_leases(reading);
  check_data_in_files(reading);
  check_threads(reading);
  check_network(reading);
  check_ring(reading);
  check_pipeline(reading);
  check_plan(reading);
  check_groups(reading);
  check_mixing(reading);
  check_centre(reading);
  check_stability(reading);
}

}  // namespace gv
