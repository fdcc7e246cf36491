// Turns settings into the options of a node.
#include "peer/config/node_options.hpp"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "peer/config/switched_mixing.hpp"
#include "peer/config/switched_mode.hpp"
#include "peer/node/gradient_places.hpp"
#include "train/optimizer.hpp"

namespace gv {
namespace {

Membership::Options membership_options(const MembershipConfig& membership) {
  return {.probe_period = membership.probe_period,
          .probe_timeout = membership.probe_timeout,
          .indirect_probes = membership.indirect_probes,
          .suspicion_min = membership.suspicion_min,
          .suspicion_max_factor = membership.suspicion_max_factor,
          .push_pull_period = membership.push_pull_period,
          .forget_dead_after = membership.forget_dead_after};
}

/// Number of steps in a chunk of leased data.
std::uint64_t chunk_steps(const Config& config) {
  constexpr std::uint64_t batches = 16;
  return config.data.chunk_samples > 0 ? config.data.chunk_samples / config.train.batch : batches;
}

/// Returns the number of samples that all peers together train on between two sittings, at which
/// the target is measured. The number is large enough for each peer to measure its model and make
/// at least one step. It is at most an eighth of the budget, so that a short run can reach its
/// target too. The peers of a pipeline measure their model together.
std::uint64_t samples_of_sitting(const Config& config, const PeerFacts& peer,
                                 std::uint64_t budget) {
  const double passes = config.run.target_every * static_cast<double>(peer.all_data);
  const bool is_pipeline = config.run.mode == ModeKind::pipeline;
  const std::size_t step = (is_pipeline ? config.pipeline.micro_batches : 1) * config.train.batch;
  const std::uint64_t least =
      (is_pipeline ? 1 : config.run.peers) * std::max<std::uint64_t>(step, peer.test_data);
  const std::uint64_t most = budget > 0 ? std::max<std::uint64_t>(1, budget / 8) : samples_max;
  return std::min(most, std::max(least, static_cast<std::uint64_t>(std::min(passes, 1e15))));
}

/// Returns the number of samples that all peers train on together. Peers of a pipeline make the
/// same runs, so they need this number only if training may end before their budget is used up;
/// otherwise it is 0.
std::uint64_t common_budget(const Config& config, const PeerFacts& peer) {
  if (config.run.mode != ModeKind::pipeline) return swarm_budget(config, peer.all_data);
  const std::uint64_t run = config.pipeline.micro_batches * config.train.batch;
  const bool may_end_before = config.run.wall > Duration{} || has_target(config);
  return may_end_before ? run * std::min(peer.steps, samples_max / run) : 0;
}

/// Returns the largest factor by which a peer's updates may be weighted; 1 if updates are not
/// weighted.
double weigh_max(const Config& config) {
  const bool is_leased = config.data.partition.kind == PartitionKind::leased;
  const bool weighs =
      config.run.mode == ModeKind::gossip && config.gossip.weighs_by_data && !is_leased;
  return weighs ? config.gossip.weigh_max : 1;
}

SwarmWorkOptions work_options(const Config& config, const PeerFacts& peer) {
  const bool is_leased = config.data.partition.kind == PartitionKind::leased;
  const std::uint64_t budget = common_budget(config, peer);
  return {.budget = budget,
          .batch = config.train.batch,
          .growth = batch_growth(config),
          .data = peer.data,
          .all_data = peer.all_data,
          .has_own_files = config.data.partition.kind == PartitionKind::shared,
          .weigh_max = weigh_max(config),
          .wall = config.run.wall,
          .target = {.value = config.run.target,
                     .every = samples_of_sitting(config, peer, budget),
                     .seed = config.run.seed},
          .chunk_steps = is_leased ? chunk_steps(config) : 0,
          .resumed = peer.swarm};
}

CourseOptions course_options(const Config& config, const Layout& layout, const PeerFacts& peer) {
  const bool is_of_swarm = swarm_budget(config, peer.all_data) > 0;
  return {.run_seed = config.run.seed,
          .steps = is_of_swarm ? std::numeric_limits<std::uint64_t>::max() : peer.steps,
          .work = work_options(config, peer),
          .save_every_steps = config.checkpoint.every_steps,
          .wait_for_peers = std::max(config.run.wait_for_peers, peer.wait_for),
          .wait_max = config.run.wait_max,
          .alone_after = peer.alone_after,
          .linger = config.run.linger,
          .layout_hash = layout.hash(),
          .first_model = peer.first_model,
          .elements = layout.size(),
          .waits_for_dead = is_of_swarm};
}

/// Returns the options for the mean of all models, which peers compute at the end.
AllReduceOptions mean_options(const Config& config, const ModelFacts& model,
                              const PeerFacts& peer) {
  return {.state_elements = model.layout.size(),
          .averages_models = true,
          .norm_cap = config.gossip.norm_cap,
          .bucket_elements = config.allreduce.bucket_elements,
          .batch = 1,
          .processors = peer.processors,
          .memory = peer.memory};
}

GossipOptions gossip_options(const Config& config, const ModelFacts& model, const PeerFacts& peer) {
  const GossipConfig& gossip = config.gossip;
  Codec codec = gossip.codec;
  codec.fraction = gossip.codec_fraction;
  return {.period_steps = gossip.period_steps,
          .trigger = gossip.trigger,
          .target_spread = gossip.target_spread,
          .pairing = gossip.pairing,
          .topology = gossip.topology,
          .alpha = gossip.alpha,
          .alpha_with_learning_rate = gossip.alpha_with_learning_rate,
          .centre_rests = gossip.centre_rests,
          .peak_learning_rate = config.train.schedule.learning_rate,
          .catch_up_periods = gossip.catch_up_periods,
          .exchange = {.codec = codec,
                       .clip_radius = static_cast<float>(gossip.clip_radius),
                       .clip_factor = static_cast<float>(gossip.clip_factor),
                       .norm_cap = static_cast<float>(gossip.norm_cap),
                       .answer_deadline = gossip.answer_deadline,
                       .progress_deadline = gossip.progress_deadline,
                       .quarantine = gossip.quarantine,
                       .offences_max = gossip.offences_max},
          .population = {.every_steps = config.population.every_steps,
                         .held_out = config.population.held_out,
                         .select = config.population.select,
                         .spread = config.population.spread,
                         .has_momentum = model.has_momentum,
                         .optimizer_elements = model.optimizer_elements},
          .mean = mean_options(config, model, peer)};
}

/// Number of floats in the parameters and the optimiser's state together.
std::size_t state_elements(const ModelFacts& model) {
  return model.layout.size() + model.optimizer_elements;
}

/// Returns the fewest samples that a peer takes in a step. If peers have different data, this is a
/// quarter of the batch, because a slow peer's data would otherwise hardly count.
std::uint32_t lockstep_batch_min(const Config& config) {
  const PartitionKind kind = config.data.partition.kind;
  const bool are_alike = kind == PartitionKind::iid || kind == PartitionKind::leased;
  return are_alike ? 1 : static_cast<std::uint32_t>((config.train.batch + 3) / 4);
}

AllReduceOptions allreduce_options(const Config& config, const ModelFacts& model,
                                   const PeerFacts& peer) {
  const AllReduceConfig& allreduce = config.allreduce;
  AllReduceOptions options{.state_elements = state_elements(model),
                           .local = allreduce.local,
                           .averages_arrays = model.is_arrays,
                           .algorithm = allreduce.algorithm,
                           .compression = allreduce.compression,
                           .places = {matrix_places(model.layout), model.dense},
                           .measures_noise = allreduce.noise_scale,
                           .bucket_elements = allreduce.bucket_elements,
                           .is_leased = config.data.partition.kind == PartitionKind::leased,
                           .batch = static_cast<std::uint32_t>(config.train.batch),
                           .batch_max = static_cast<std::uint32_t>(lockstep_batch_max(config)),
                           .batch_min = lockstep_batch_min(config),
                           .processors = peer.processors,
                           .memory = peer.memory};
  if (allreduce.local.has_momentum()) options.state_elements += model.layout.size();
  return options;
}

PipelineOptions pipeline_options(const Config& config, const ModelFacts& model, PeerFacts& peer) {
  const PipelineConfig& pipeline = config.pipeline;
  return {.kind = pipeline.schedule,
          .router = pipeline.router,
          .consensus = pipeline.consensus,
          .micro_batches = pipeline.micro_batches,
          .micro_batch = config.train.batch,
          .test_samples = has_target(config) ? peer.test_data : 0,
          .accumulate = pipeline.accumulate,
          .plan = pipeline.plan,
          .pins = pipeline.pins,
          .group = pipeline.group,
          .slices_most = model.slices_most,
          .ahead = pipeline.ahead,
          .mix_alpha = pipeline.mix_alpha,
          .rule = in_runs(config.mixing.rule),
          .mix_every = pipeline.mix_every,
          .copy_every = pipeline.copy_every,
          .resumed = peer.resumed,
          .resumed_parts = std::move(peer.resumed_parts),
          .resumed_copies = std::move(peer.resumed_copies),
          .stages = model.stages,
          .stage_seconds = model.stage_seconds,
          .memory = peer.memory};
}

MixingOptions mixing_options(const Config& config, const ModelFacts& model, const PeerFacts& peer) {
  return {.rule = config.mixing.rule,
          .period = config.mixing.period_steps,
          .catch_up_rounds = config.mixing.catch_up_rounds,
          .state_elements = state_elements(model),
          .batch = static_cast<std::uint32_t>(config.train.batch),
          .is_leased = config.data.partition.kind == PartitionKind::leased,
          .mean = mean_options(config, model, peer),
          .read_revision =
              [config, has_buffers = model.has_buffers](std::string_view text) {
                return switched_mixing(config, text, has_buffers);
              },
          .revision = peer.revision};
}

/// Returns a function that reads switched settings. The function keeps the facts that it needs
/// about the model and the peer.
std::function<SwitchedMode(std::string_view)> switch_reader(const Config& config,
                                                            const ModelFacts& model,
                                                            const PeerFacts& peer) {
  if (config.run.mode == ModeKind::pipeline || model.is_arrays) return {};
  PeerFacts kept;
  kept.steps = peer.steps;
  kept.all_data = peer.all_data;
  kept.processors = peer.processors;
  kept.memory = peer.memory;
  return [config, model, kept](std::string_view settings) {
    SwitchedConfig next = switched_config(config, settings, model.has_buffers);
    SwitchedMode switched{.problems = std::move(next.problems),
                          .mode = next.config.run.mode,
                          .gossip = {},
                          .allreduce = {}};
    if (switched.problems.empty() && switched.mode == ModeKind::mixing) {
      switched.problems = switched_mixing(config, settings, model.has_buffers).problems;
    }
    if (!switched.problems.empty()) return switched;
    switched.gossip = gossip_options(next.config, model, kept);
    switched.allreduce = allreduce_options(next.config, model, kept);
    switched.weigh_max = weigh_max(next.config);
    // Except in mode `gossip`, all peers make the same number of steps, however unequal their
    // shards are.
    switched.steps = kept.steps;
    if (switched.mode != ModeKind::gossip && kept.all_data > 0) {
      switched.steps = steps_of(next.config, kept.all_data / next.config.run.peers);
    }
    return switched;
  };
}

}  // namespace

std::uint64_t swarm_budget(const Config& config, std::uint64_t all_data) {
  if (!has_swarm_budget(config)) return 0;
  if (config.run.steps > 0) {
    const double samples = static_cast<double>(config.run.steps) *
                           static_cast<double>(config.train.batch) *
                           static_cast<double>(config.run.peers);
    return samples < static_cast<double>(samples_max)
               ? config.run.steps * config.train.batch * config.run.peers
               : samples_max;
  }
  return rounded_count(config.run.epochs * static_cast<double>(all_data), samples_max);
}

ModelFacts facts_of(const Layout& layout, const OptimizerSpec& optimizer,
                    std::vector<DensePlace> dense) {
  return {.layout = layout,
          .optimizer_elements = layout.size() * optimizer_vectors(optimizer),
          .has_momentum = has_momentum(optimizer),
          .dense = std::move(dense)};
}

ModelFacts facts_of(Learner& learner, const OptimizerSpec& optimizer) {
  ModelFacts model = facts_of(learner.layout(), optimizer, dense_places(learner.dense_weights()));
  model.optimizer_elements = learner.optimizer_size();
  model.is_arrays = learner.arrays() != nullptr;
  return model;
}

ModelFacts facts_of(const StageLearner& learner, const OptimizerSpec& optimizer) {
  ModelFacts model = facts_of(learner.whole_layout(), optimizer);
  for (std::size_t s = 0; s < learner.stages(); ++s) {
    StageSize size{.parameters = learner.size({.stage = s}),
                   .state = learner.state_size(s),
                   .forward = learner.boundary(s).forward(),
                   .backward = learner.boundary(s).activations,
                   .forward_sums = learner.group_sums(s, false),
                   .backward_sums = learner.group_sums(s, true)};
    for (std::size_t slice = 0; slice < learner.slices(s); ++slice) {
      const PartOfStage part{.stage = s, .slice = slice};
      size.slices.push_back({learner.size(part), learner.state_size(part)});
    }
    model.stages.push_back(std::move(size));
    model.stage_seconds.push_back(learner.work_share(s));
  }
  return model;
}

NodeOptions node_options(const Config& config, const ModelFacts& model, PeerFacts peer) {
  auto read_switch = switch_reader(config, model, peer);
  return {.membership = membership_options(config.membership),
          .mode = config.run.mode,
          .course = course_options(config, model.layout, peer),
          .gossip = gossip_options(config, model, peer),
          .allreduce = allreduce_options(config, model, peer),
          .pipeline = pipeline_options(config, model, peer),
          .mixing = mixing_options(config, model, peer),
          .read_switch = std::move(read_switch),
          .revision = peer.revision,
          .alike = alike_in_step(config)};
}

}  // namespace gv
