// Runs jobs on one replica.
#include "peer/node/replica.hpp"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "base/fingerprint.hpp"
#include "base/rng.hpp"
#include "consensus/compression/compressors.hpp"
#include "peer/node/hyperparameters.hpp"
#include "train/evaluation.hpp"

namespace gv {
namespace {

/// The outer momentum's name among an optimiser's vectors.
constexpr const char* outer_name = "outer_momentum";
/// Prefix of the names of vectors that mixing keeps.
constexpr std::string_view mixing_prefix = "mixing_";
/// Prefix of the names of vectors that a gradient compressor keeps.
constexpr std::string_view gradient_prefix = "gradient_";

using Named = GradientCompressor::Named;

void append(std::string_view prefix, Named vectors, OptimizerState& state) {
  for (auto& [name, values] : vectors) {
    state.vectors.emplace_back(std::string(prefix).append(name), std::move(values));
  }
}

/// Removes the vectors at the end of `state` whose names begin with `prefix`, and returns them
/// without the prefix, in their order.
Named take(std::string_view prefix, OptimizerState& state) {
  Named taken;
  while (!state.vectors.empty() && state.vectors.back().first.starts_with(prefix)) {
    auto& [name, values] = state.vectors.back();
    taken.emplace_back(name.substr(prefix.size()), std::move(values));
    state.vectors.pop_back();
  }
  std::ranges::reverse(taken);
  return taken;
}

}  // namespace

ConservationChecksum initial_checksum(std::uint64_t peer) {
  Rng rng = Rng(peer).fork("canary");
  ConservationChecksum checksum;
  for (auto& lane : checksum) lane = static_cast<std::int64_t>(rng.below(1'000'000'000));
  return checksum;
}

Replica::Replica(Trainer trainer, std::uint64_t peer, const LocalSteps& local)
    : trainer_(std::move(trainer)),
      outer_(local, trainer_.parameters().size()),
      checksum_(initial_checksum(peer)),
      compressor_(make_compressor({}, trainer_.parameters().size())) {}

void Replica::mix_by(const MixRule& rule, std::uint64_t run_seed) {
  mixing_.emplace(rule, trainer_.parameters().size(), run_seed,
                  static_cast<double>(trainer_.shard_samples()));
}

void Replica::join_population(std::shared_ptr<const DataSet> held_out) {
  check(held_out->size() > 0, "a validation needs samples");
  Model model(trainer_.model_spec(), held_out->shape, evaluation_batch(*held_out));
  validation_ = Validation{std::move(held_out), std::move(model)};
}

double Replica::validation_loss() {
  return evaluate(validation_->model, trainer_.parameters(), *validation_->held_out).mean_loss();
}

std::size_t Replica::state_size() const { return trainer_.state_size() + outer_.momentum().size(); }

OptimizerState Replica::optimizer_state() const {
  OptimizerState state = trainer_.optimizer_state();
  const auto momentum = outer_.momentum();
  if (!momentum.empty()) {
    state.vectors.emplace_back(outer_name, std::vector(momentum.begin(), momentum.end()));
  }
  append(gradient_prefix, asked_for_ ? compressor_->lasting() : restored_, state);
  if (mixing_) {
    Named kept;
    for (auto& [name, values] : mixing_->mixer().lasting()) {
      kept.emplace_back(name, std::move(values));
    }
    append(mixing_prefix, std::move(kept), state);
  }
  if (validation_) state.hyperparameters = trainer_.hyperparameters();
  return state;
}

std::string Replica::restore(std::span<const float> parameters, OptimizerState state) {
  // A run may go on in another mode: drop vectors that only the last one used.
  const Named mixed = take(mixing_prefix, state);
  Named waiting = take(gradient_prefix, state);
  std::vector<float> momentum(outer_.momentum().size());
  if (!state.vectors.empty() && state.vectors.back().first == outer_name) {
    if (!momentum.empty()) momentum = std::move(state.vectors.back().second);
    state.vectors.pop_back();
    if (momentum.size() != outer_.momentum().size()) return "the outer momentum has another size";
  }
  std::string problem = trainer_.restore(parameters, state);
  if (!problem.empty()) return problem;
  outer_.adopt(momentum);
  restored_ = std::move(waiting);
  if (validation_ && state.hyperparameters) trainer_.set_hyperparameters(*state.hyperparameters);
  if (mixing_) {
    for (const auto& [name, values] : mixed) mixing_->mixer().restore(name, values);
  }
  return problem;
}

std::string Replica::checksum_text() const {
  std::string text;
  for (const std::int64_t lane : checksum_)
    text += (text.empty() ? "" : " ") + std::to_string(lane);
  return text;
}

void Replica::restore_checksum(const std::string& text) {
  std::istringstream in(text);
  ConservationChecksum read{};
  for (std::int64_t& lane : read) in >> lane;
  if (in) checksum_ = read;
}

/// Takes an instance of our own where another compressor is asked for.
void Replica::compress_by(const std::shared_ptr<const GradientCompressor>& compressor) {
  if (!compressor || compressor == asked_for_) return;
  asked_for_ = compressor;
  compressor_ = compressor->blank();
  for (auto& [name, values] : std::exchange(restored_, {})) {
    compressor_->restore(name, std::move(values));
  }
}

/// Does not announce values that cannot be written in their codec, nor any after them.
Score Replica::compute(const GradientOrder& order, const Ready& ready, bool& writable) {
  compress_by(order.compressor);
  const CompressionPlan& plan = order.plan;
  const std::size_t size = trainer_.parameters().size();
  std::vector<float> apart(plan.in_place ? 0 : size);
  const std::span<float> travels(*order.values);
  const std::span<float> values = plan.in_place ? travels.first(size) : std::span(apart);
  std::size_t encoded_from = size;
  const auto encode_from = [&](std::size_t begin) {
    const Rng draws =
        Rng(trainer_.step()).fork("rounding").fork(static_cast<std::uint64_t>(checksum_.front()));
    writable =
        writable && compressor_->encode(plan, values.subspan(begin, encoded_from - begin),
                                        travels.first(plan.in_place ? 0 : plan.elements), draws);
    encoded_from = begin;
  };
  auto mark = order.marks.begin();
  const auto tell = [&](std::size_t begin, std::size_t) {
    std::optional<std::size_t> reached;
    for (; mark != order.marks.end() && *mark >= begin; ++mark) reached = *mark;
    if (!reached) return;
    encode_from(std::min(*reached, size));
    if (writable && ready) ready(encoded_from);
  };
  const Score score = order.local_steps > 0
                          ? trainer_.local_steps(order.local_steps, order.samples, values)
                          : trainer_.gradient(order.samples, values,
                                              plan.piecewise ? tell : ReadyRange(), plan.factored);
  encode_from(0);
  return score;
}

void Replica::load_state(const ReplicaState& state) {
  const std::span<const float> values(*state.values);
  const std::size_t inner = trainer_.state_size();
  if (state.own_optimizer && trainer_.updates() > 0) {
    trainer_.adopt_model(values.first(trainer_.parameters().size()), state.step);
  } else {
    // In mode `allreduce` every step is an update, from the first on.
    trainer_.adopt_state(values.first(inner), state.step, state.step);
  }
  outer_.adopt(values.subspan(inner));
  compressor_->clear();
  restored_.clear();
}

/// Members of a population get the whole replica, other peers the model alone.
void Replica::adopt(const DownloadedModel& fetched) {
  const std::span<const float> values(fetched.values);
  const auto tail = validation_ ? tail_of(values) : std::nullopt;
  if (!tail) {
    trainer_.adopt(values.first(trainer_.parameters().size()), fetched.step);
    return;
  }
  trainer_.adopt_state(values.first(trainer_.state_size()), fetched.step, tail->updates);
  trainer_.set_hyperparameters(tail->hyperparameters);
}

void Replica::update(const Job& job) {
  const auto parameters = trainer_.parameters();
  const auto mean = compressor_->decode(job.update_plan, *job.update).first(parameters.size());
  if (job.update_steps == 0) {
    trainer_.update(mean, job.update_samples);
  } else {
    std::vector<float> model(parameters.begin(), parameters.end());
    outer_.step(model, mean);
    trainer_.end_local_steps(model, job.update_steps);
  }
}

void Replica::at_pace(std::uint64_t steps, const std::function<void()>& make) const {
  if (pace_) {
    pace_(steps, make);
  } else {
    make();
  }
}

JobDone Replica::run(Job job, const Ready& ready) {
  JobDone done{.number = job.number};
  if (job.adopt) adopt(*job.adopt);
  if (job.load_state) load_state(*job.load_state);
  const MixRunner::Host host{
      .parameters = trainer_.live_parameters(),
      .go_on_at = [this](std::uint64_t step) { trainer_.go_on_at(step); },
      .take_steps =
          [&](const Trainer::Direct& direct) {
            const double learning_rate = trainer_.learning_rate();
            at_pace(job.steps, [&] { done.score = trainer_.run_steps(job.steps, direct); });
            return learning_rate;
          }};
  if (job.mix) mixing_->begin(*job.mix, host);
  const std::uint64_t before = trainer_.step();
  if (job.update) update(job);
  if (job.fingerprint) done.fingerprint = fingerprint(trainer_.parameters());
  if (job.state) {
    const std::span<float> state(*job.state);
    trainer_.copy_state(state.first(trainer_.state_size()));
    std::ranges::copy(outer_.momentum(), state.subspan(trainer_.state_size()).begin());
    done.state = std::move(job.state);
  }
  for (const Force& force : job.forces) {
    trainer_.add(*force.values, force.scale);
    for (std::size_t lane = 0; lane < checksum_.size(); ++lane)
      checksum_[lane] += force.checksum[lane];
  }
  if (job.mix) {
    mixing_->run(*job.mix, before, job.steps, host, [&] {
      if (ready) ready(0);
    });
    done.mix = std::move(job.mix);
  } else if (job.steps > 0) {
    at_pace(job.steps, [&] { done.score = trainer_.run_steps(job.steps); });
  }
  if (job.gradient) {
    at_pace(std::max<std::uint64_t>(1, job.gradient->local_steps),
            [&] { done.score = compute(*job.gradient, ready, done.gradient_writable); });
    done.gradient_samples = job.gradient->all_samples();
  }
  done.step = trainer_.step();
  done.steps_run = done.step - before;
  done.learning_rate = trainer_.learning_rate();
  if (validation_) done.hyperparameters = trainer_.hyperparameters();
  if (job.validate && validation_) done.validation_loss = validation_loss();
  if (job.snapshot) {
    const auto parameters = trainer_.parameters();
    job.snapshot->values.assign(parameters.begin(), parameters.end());
    job.snapshot->checksum = checksum_;
    job.snapshot->step = done.step;
    job.snapshot->rest.clear();
    if (job.snapshot_rest) {
      trainer_.append_optimizer(job.snapshot->rest);
      append({trainer_.hyperparameters(), trainer_.updates()}, job.snapshot->rest);
    }
    done.snapshot = std::move(job.snapshot);
  }
  done.spent = std::move(job.forces);
  return done;
}

}  // namespace gv
