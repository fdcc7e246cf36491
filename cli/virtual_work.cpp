// Prepares data, models and stand-ins for the work of virtual peers.
#include "cli/virtual_work.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "peer/config/node_options.hpp"
#include "peer/node/gradient_places.hpp"
#include "peer/node/stage_replica.hpp"
#include "peer/node/whole_replica.hpp"
#include "sim/virtual/draw.hpp"
#include "sim/virtual/simulator.hpp"
#include "train/evaluation.hpp"

namespace gv {
namespace {

/// Number of test samples for one point of a curve. The summary uses all test samples.
constexpr std::size_t quick_samples = 2000;

}  // namespace

VirtualWork::VirtualWork(const Config& config, const Scenario& scenario, const Hostile& hostile)
    : config_(config), scenario_(scenario) {
  if (config.train.threads > 1) {
    problems_.push_back({"train.threads",
                         "threads that step at once have no order, and a virtual run repeats",
                         "write threads = 1"});
    return;
  }
  if (scenario.work == WorkKind::training) {
    prepare_training();
    for (const auto& [peer, rule] : hostile) {
      if (problems_.empty() && rule.attack == AttackKind::label_flip) flip_labels(peer);
    }
  } else {
    prepare_vectors(hostile);
  }
}

NodeOptions VirtualWork::node() const {
  if (scenario_.work != WorkKind::training) return options_of_vectors(config_, scenario_);
  const OptimizerSpec& optimizer = config_.train.optimizer;
  if (config_.run.mode != ModeKind::pipeline) {
    const auto dense = dense_places(model_->dense_weights());
    return node_options(
        config_, facts_of(layout_, optimizer, dense),
        {.all_data = tasks_.front().samples, .test_data = test_.data ? test_.data->size() : 0});
  }
  const Task& task = tasks_.front();
  ModelFacts facts = facts_of(*stages_of(task), optimizer);
  facts.slices_most = task.slices_most;
  return node_options(config_, facts,
                      {.steps = task.trainer.steps,
                       .all_data = task.samples,
                       .test_data = task.test ? task.test->size() : 0});
}

std::unique_ptr<Replica> VirtualWork::make(std::size_t peer) const {
  std::unique_ptr<Replica> replica = made(peer);
  if (const auto rule = mixing_rule(config_)) replica->mix_by(*rule, config_.run.seed);
  return replica;
}

Judgement VirtualWork::judge(std::span<const float> model, bool quickly) {
  if (scenario_.work == WorkKind::training) {
    const DataSet& data = quickly ? *quick_ : *test_.data;
    const Score score = evaluate(*model_, model, data);
    return {score.mean_loss(), merit_of(score, data)};
  }
  if (scenario_.work == WorkKind::quadratic) {
    return {quadratic_excess(quadratic_, optimum_, model)};
  }
  return {};
}

std::unique_ptr<Replica> VirtualWork::made(std::size_t peer) const {
  const bool trains = scenario_.work == WorkKind::training;
  if (config_.run.mode == ModeKind::pipeline) {
    if (!trains) return idle_stage_workload(node().pipeline.stages);
    return std::make_unique<StageReplica>(stages_of(tasks_[peer]));
  }
  if (trains) return first_replica(tasks_[peer], peer, learner_of(tasks_[peer]));
  auto learner = scenario_.work == WorkKind::quadratic
                     ? quadratic_learner(quadratic_, peer)
                     : idle_learner(scenario_.dimension, config_.run.seed, peer,
                                    config_.run.mode != ModeKind::gossip);
  if (config_.population.is_on()) {
    const Hyperparameters all{config_.train.schedule.learning_rate, 0};
    learner->join_population(
        first_hyperparameters(all, config_.population.spread, config_.run.seed, peer)
            .learning_rate);
  }
  return std::make_unique<WholeReplica>(std::move(learner), peer, config_.allreduce.local);
}

void VirtualWork::prepare_training() {
  tasks_ = load_tasks(config_);
  problems_ = tasks_.front().problems;
  if (!problems_.empty()) return;
  test_ = load_test_set(config_, tasks_.front().shard->classes);
  problems_ = test_.problems;
  if (problems_.empty()) {
    problems_ = problems_of_test(config_, *tasks_.front().shard, *test_.data);
  }
  if (!problems_.empty()) return;
  std::vector<std::uint32_t> first(std::min(quick_samples, test_.data->size()));
  std::iota(first.begin(), first.end(), 0U);
  quick_.emplace(test_.data->subset(first));
  model_.emplace(test_.model, test_.data->shape, evaluation_batch(*test_.data));
  layout_ = model_->layout();
  for (Task& task : tasks_) {
    if (has_target(config_)) task.test = test_.data;
    steps_.push_back(task.trainer.steps);
    if (task.shard) data_.push_back(task.shard->size());
  }
}

/// Replaces each label y by classes - 1 - y.
void VirtualWork::flip_labels(std::size_t peer) {
  auto poisoned = std::make_shared<DataSet>(*tasks_[peer].shard);
  if (poisoned->blocks) {
    problems_.push_back({"scenario.hostile", "the labels stay in files and cannot be flipped",
                         "take another attack, or write in_memory = true below [data]"});
  }
  if (poisoned->classes == 0) {
    problems_.push_back({"scenario.hostile", "the data have no labels to flip",
                         "take another attack, or data of classes"});
  }
  for (std::int32_t& label : poisoned->labels) {
    label = static_cast<std::int32_t>(poisoned->classes) - 1 - label;
  }
  tasks_[peer].shard = std::move(poisoned);
}

void VirtualWork::prepare_vectors(const Hostile& hostile) {
  layout_.add("x", {scenario_.dimension});
  quadratic_ = {.dimension = scenario_.dimension,
                .learning_rate = config_.train.schedule.learning_rate,
                .noise = scenario_.noise,
                .disagreement = scenario_.disagreement,
                .seed = config_.run.seed};
  const std::size_t peers = config_.run.peers;
  steps_.assign(peers, config_.run.steps > 0 ? config_.run.steps : endless_steps);
  if (scenario_.work != WorkKind::quadratic) return;
  std::vector<std::size_t> honest;
  for (std::size_t peer = 0; peer < peers; ++peer) {
    if (!hostile.contains(peer)) honest.push_back(peer);
  }
  optimum_ = common_optimum(quadratic_, honest);
}

}  // namespace gv
