// Runs jobs on one replica.
#include "peer/node/replica.hpp"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "base/fingerprint.hpp"
#include "base/rng.hpp"
#include "base/wide.hpp"
#include "consensus/compression/compressors.hpp"
#include "peer/node/hyperparameters.hpp"

namespace gv {
namespace {

/// The outer momentum's name among an optimiser's vectors.
constexpr const char* outer_name = "outer_momentum";
/// Prefix of the names of vectors that mixing keeps.
constexpr std::string_view mixing_prefix = "mixing_";
/// Prefix of the names of vectors that a gradient compressor keeps.
constexpr std::string_view gradient_prefix = "gradient_";

GV_WIDE void add_scaled(float* __restrict x, const float* __restrict force, std::size_t n,
                        float scale) {
  for (std::size_t i = 0; i < n; ++i) x[i] += scale * force[i];
}

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

Replica::Replica(std::unique_ptr<Learner> learner, std::uint64_t peer, const LocalSteps& local)
    : learner_(std::move(learner)),
      outer_(local, learner_->layout().size()),
      checksum_(initial_checksum(peer)),
      compressor_(make_compressor({}, learner_->layout().size())) {}

void Replica::mix_by(const MixRule& rule, std::uint64_t run_seed) {
  mixing_.emplace(rule, learner_->layout().size(), run_seed,
                  static_cast<double>(learner_->samples()));
}

std::size_t Replica::state_size() const {
  return learner_->layout().size() + learner_->optimizer_size() + outer_.momentum().size();
}

OptimizerState Replica::optimizer_state() const {
  OptimizerState state = learner_->optimizer_state();
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
  if (const Tunable* tunable = learner_->tunable()) {
    state.hyperparameters = tunable->hyperparameters();
  }
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
  std::string problem = learner_->restore(parameters, state);
  if (!problem.empty()) return problem;
  outer_.adopt(momentum);
  restored_ = std::move(waiting);
  if (Tunable* tunable = learner_->tunable(); tunable != nullptr && state.hyperparameters) {
    tunable->set_hyperparameters(*state.hyperparameters);
  }
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
  const std::size_t size = learner_->parameters().size();
  std::vector<float> apart(plan.in_place ? 0 : size);
  const std::span<float> travels(*order.values);
  const std::span<float> values = plan.in_place ? travels.first(size) : std::span(apart);
  std::size_t encoded_from = size;
  const auto encode_from = [&](std::size_t begin) {
    const Rng draws =
        Rng(learner_->step()).fork("rounding").fork(static_cast<std::uint64_t>(checksum_.front()));
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
                          ? learner_->local_steps(order.local_steps, order.samples, values)
                          : learner_->gradient(order.samples, values,
                                               plan.piecewise ? tell : ReadyRange(), plan.factored);
  encode_from(0);
  return score;
}

void Replica::load_state(const ReplicaState& state) {
  const std::span<const float> values(*state.values);
  const auto parameters = values.first(learner_->layout().size());
  const auto optimizer = values.subspan(parameters.size(), learner_->optimizer_size());
  if (state.own_optimizer && learner_->updates() > 0) {
    learner_->adopt_model(parameters, state.step);
  } else {
    // In mode `allreduce` every step is an update, from the first on.
    learner_->adopt_state(parameters, optimizer, state.step, state.step);
  }
  outer_.adopt(values.subspan(parameters.size() + optimizer.size()));
  compressor_->clear();
  restored_.clear();
}

/// Members of a population get the whole replica, other peers the model alone.
void Replica::adopt(const DownloadedModel& fetched) {
  const std::span<const float> values(fetched.values);
  const auto parameters = values.first(learner_->layout().size());
  Tunable* tunable = learner_->tunable();
  const auto tail = tunable != nullptr ? tail_of(values) : std::nullopt;
  if (!tail) {
    learner_->adopt(parameters, fetched.step);
    return;
  }
  learner_->adopt_state(parameters, values.subspan(parameters.size(), learner_->optimizer_size()),
                        fetched.step, tail->updates);
  tunable->set_hyperparameters(tail->hyperparameters);
}

void Replica::add(const Force& force) {
  const std::span<float> x = learner_->live_parameters();
  check(force.values->size() == x.size(), "a force has the layout's size");
  add_scaled(x.data(), force.values->data(), x.size(), force.scale);
  for (std::size_t lane = 0; lane < checksum_.size(); ++lane) {
    checksum_[lane] += force.checksum[lane];
  }
}

void Replica::fill(Snapshot& snapshot, bool with_rest) const {
  const auto parameters = learner_->parameters();
  snapshot.values.assign(parameters.begin(), parameters.end());
  snapshot.checksum = checksum_;
  snapshot.step = learner_->step();
  snapshot.rest.clear();
  const Tunable* tunable = learner_->tunable();
  if (!with_rest || tunable == nullptr) return;
  snapshot.rest.resize(learner_->optimizer_size());
  learner_->copy_optimizer(snapshot.rest);
  append({tunable->hyperparameters(), learner_->updates()}, snapshot.rest);
}

void Replica::update(const Job& job) {
  const auto parameters = learner_->parameters();
  const auto mean = compressor_->decode(job.update_plan, *job.update).first(parameters.size());
  if (job.update_steps == 0) {
    learner_->update(mean, job.update_samples);
  } else {
    std::vector<float> model(parameters.begin(), parameters.end());
    outer_.step(model, mean);
    learner_->end_local_steps(model, job.update_steps);
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
      .parameters = learner_->live_parameters(),
      .go_on_at = [this](std::uint64_t step) { learner_->go_on_at(step); },
      .take_steps =
          [&](const Learner::Direct& direct) {
            const double learning_rate = learner_->learning_rate();
            at_pace(job.steps, [&] { done.score = learner_->run_steps(job.steps, direct); });
            return learning_rate;
          }};
  if (job.mix) mixing_->begin(*job.mix, host);
  const std::uint64_t before = learner_->step();
  if (job.update) update(job);
  if (job.fingerprint) done.fingerprint = fingerprint(learner_->parameters());
  if (job.state) {
    const std::span<float> state(*job.state);
    const std::size_t elements = learner_->layout().size();
    const std::size_t optimizer = learner_->optimizer_size();
    std::ranges::copy(learner_->parameters(), state.begin());
    learner_->copy_optimizer(state.subspan(elements, optimizer));
    std::ranges::copy(outer_.momentum(), state.subspan(elements + optimizer).begin());
    done.state = std::move(job.state);
  }
  for (const Force& force : job.forces) add(force);
  if (job.mix) {
    mixing_->run(*job.mix, before, job.steps, host, [&] {
      if (ready) ready(0);
    });
    done.mix = std::move(job.mix);
  } else if (job.steps > 0) {
    at_pace(job.steps, [&] { done.score = learner_->run_steps(job.steps); });
  }
  if (job.gradient) {
    at_pace(std::max<std::uint64_t>(1, job.gradient->local_steps),
            [&] { done.score = compute(*job.gradient, ready, done.gradient_writable); });
    done.gradient_samples = job.gradient->all_samples();
  }
  done.step = learner_->step();
  done.steps_run = done.step - before;
  done.learning_rate = learner_->learning_rate();
  if (Tunable* tunable = learner_->tunable()) {
    done.hyperparameters = tunable->hyperparameters();
    if (job.validate) done.validation_loss = tunable->validation_loss();
  }
  if (job.snapshot) {
    fill(*job.snapshot, job.snapshot_rest);
    done.snapshot = std::move(job.snapshot);
  }
  done.spent = std::move(job.forces);
  return done;
}

}  // namespace gv
