// Replicas that train, and two that only look like it from outside.
#include "sim/virtual/workload.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "base/fingerprint.hpp"
#include "base/rng.hpp"
#include "peer/node/hyperparameters.hpp"
#include "peer/node/stage_mixers.hpp"

namespace gv {
namespace {

/// h_k: from 0.1 to 1, geometrically.
double curvature(const QuadraticSpec& spec, std::size_t k) {
  return 0.1 * std::pow(10.0, static_cast<double>(k + 1) / static_cast<double>(spec.dimension));
}

class TrainingWorkload : public Workload {
 public:
  explicit TrainingWorkload(Replica replica) : replica_(std::move(replica)) {}

  JobDone run(Job job) override { return replica_.run(std::move(job)); }
  void mix_by(const MixRule& rule, std::uint64_t run_seed) override {
    replica_.mix_by(rule, run_seed);
  }
  std::uint64_t step() const override { return replica_.trainer().step(); }
  std::span<const float> parameters() const override { return replica_.trainer().parameters(); }
  const ConservationChecksum& checksum() const override { return replica_.checksum(); }

  Image image() const override {
    const auto values = parameters();
    return {
        {values.begin(), values.end()}, replica_.optimizer_state(), replica_.checksum(), step()};
  }

  void restore(const Image& image) override {
    const std::string problem = replica_.restore(image.parameters, image.optimizer);
    check(problem.empty(), "a virtual peer's own image fits it");
    replica_.set_checksum(image.checksum);
  }

 private:
  Replica replica_;
};

class StageWorkload : public Workload {
 public:
  explicit StageWorkload(StageReplica replica) : replica_(std::move(replica)) {}

  JobDone run(Job job) override {
    JobDone done = replica_.run(std::move(job));
    parameters_.clear();
    const StageTrainer& trainer = replica_.trainer();
    for (std::size_t stage = 0; stage < trainer.stages(); ++stage) {
      if (!trainer.carries(stage)) continue;
      const auto values = trainer.parameters(stage);
      parameters_.insert(parameters_.end(), values.begin(), values.end());
    }
    return done;
  }

  std::uint64_t step() const override { return replica_.trainer().step(); }
  std::span<const float> parameters() const override { return parameters_; }
  const ConservationChecksum& checksum() const override { return checksum_; }
  void mix_by(const MixRule& rule, std::uint64_t run_seed) override {
    replica_.mix_by(rule, run_seed);
  }
  std::span<const float> stage(std::size_t stage) const override {
    const StageTrainer& trainer = replica_.trainer();
    return trainer.carries(stage) ? trainer.parameters(stage) : std::span<const float>();
  }
  Image image() const override { return {}; }
  void restore(const Image&) override {}

 private:
  StageReplica replica_;
  std::vector<float> parameters_;
  ConservationChecksum checksum_{};
};

/// Behaves like a StageReplica, without a model: a stage's parameters are all one number, which
/// falls by the mean of its gradients.
class IdleStageWorkload : public Workload {
 public:
  explicit IdleStageWorkload(std::vector<StageSize> sizes) : sizes_(std::move(sizes)) {}

  JobDone run(Job job) override {
    JobDone done{.number = job.number};
    const std::uint64_t before = step_;
    if (job.stages) {
      StageJob& work = *job.stages;
      // A schedule of many updates has made some of them already.
      if (work.abandons) stages_ = before_run_;
      for (const StageEnd& end : work.ends) finish(end);
      if (!work.ends.empty()) ++step_;
      for (const StageCopy& copy : work.export_states) copy_state(copy);
      if (work.moves_to) step_ = *work.moves_to;
      for (const StageLoad& load_states : work.load_states) {
        std::vector<float>& own = stages_[load_states.stage];
        own.assign(sizes_[load_states.stage].parameters, 0);
        if (load_states.values) std::copy_n(load_states.values->begin(), own.size(), own.begin());
      }
      for (const std::uint32_t stage : work.release) stages_.erase(stage);
      for (const StageCopy& copy : work.copies) copy_state(copy);
      if (!work.ends.empty() || work.moves_to || !work.release.empty()) before_run_ = stages_;
      if (work.order) carry_out(*work.order);
    }
    done.step = step_;
    done.steps_run = done.step - before;
    done.stages = std::move(job.stages);
    return done;
  }

  std::uint64_t step() const override { return step_; }
  std::span<const float> parameters() const override {
    return stages_.empty() ? std::span<const float>() : stages_.begin()->second;
  }
  const ConservationChecksum& checksum() const override { return checksum_; }
  void mix_by(const MixRule& rule, std::uint64_t run_seed) override {
    std::vector<std::size_t> sizes;
    for (const StageSize& size : sizes_) sizes.push_back(size.parameters);
    mixers_.emplace(rule, run_seed, sizes);
  }
  std::span<const float> stage(std::size_t stage) const override {
    const auto own = stages_.find(static_cast<std::uint32_t>(stage));
    return own == stages_.end() ? std::span<const float>() : own->second;
  }
  Image image() const override { return {}; }
  void restore(const Image&) override {}

 private:
  void copy_state(const StageCopy& copy) const {
    std::ranges::fill(*copy.values, 0.0F);
    std::ranges::copy(stages_.at(copy.stage), copy.values->begin());
  }

  void finish(const StageEnd& end) {
    std::vector<float>& own = stages_[end.stage];
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (end.sum) own[i] -= (*end.sum)[i] / static_cast<float>(end.micro_batches);
      if (!end.mean) continue;
      own[i] = end.snapshot ? own[i] + end.force * ((*end.mean)[i] - (*end.snapshot)[i])
                            : (*end.mean)[i];
    }
    if (end.round) own = mixers_->mixed(end, own);
  }

  void carry_out(const StageOrder& order) {
    std::vector<float>& own = stages_[order.what.stage];
    own.resize(sizes_[order.what.stage].parameters);
    if (order.copies_parameters) {
      const auto lanes = std::span<const float>(*order.sum).subspan(own.size());
      std::ranges::copy(lanes, std::ranges::copy(own, order.out->begin()).out);
      return;
    }
    if (order.mixing) {
      mixers_->send(order.what.stage, *order.mixing, own);
      return;
    }
    if (order.out) std::ranges::fill(*order.out, 0.0F);
    if (!order.sum) return;
    const auto gradient = std::span(*order.sum).first(own.size());
    if (order.what.action == PipelineAction::update) {
      for (std::size_t i = 0; i < own.size(); ++i) {
        own[i] -= gradient[i] / static_cast<float>(order.micro_batches);
      }
      std::ranges::fill(gradient, 0.0F);
      return;
    }
    for (float& value : gradient) value += 1;
    (*order.sum)[own.size() + order.what.micro_batch] += 1;
  }

  using Stages = std::map<std::uint32_t, std::vector<float>>;

  std::vector<StageSize> sizes_;
  std::optional<StageMixers> mixers_;
  Stages stages_;
  Stages before_run_;  ///< The state to restore when a run is given up.
  std::uint64_t step_ = 0;
  ConservationChecksum checksum_{};
};

/// The part that quadratic and idle replicas share: a vector that jobs act upon.
class VectorWorkload : public Workload {
 public:
  VectorWorkload(std::vector<float> parameters, std::size_t peer, double learning_rate,
                 const LocalSteps& local)
      : parameters_(std::move(parameters)),
        outer_(local, parameters_.size()),
        number_(peer),
        checksum_(initial_checksum(peer)),
        learning_rate_(learning_rate) {}

  JobDone run(Job job) override {
    JobDone done{.number = job.number};
    if (job.adopt) adopt(*job.adopt);
    if (job.load_state) {
      const std::span<const float> state(*job.load_state->values);
      std::ranges::copy(state.first(parameters_.size()), parameters_.begin());
      outer_.adopt(state.subspan(parameters_.size()));
      step_ = job.load_state->step;
    }
    const MixRunner::Host host{.parameters = parameters_,
                               .go_on_at = [this](std::uint64_t step) { step_ = step; },
                               .take_steps =
                                   [&](const std::function<void(std::span<float>)>& direct) {
                                     take_steps(job.steps, direct, done.score);
                                     return learning_rate_;
                                   }};
    if (job.mix) mixing_->begin(*job.mix, host);
    const std::uint64_t before = step_;
    if (job.update) update(job);
    if (job.fingerprint) done.fingerprint = fingerprint(parameters_);
    if (job.state) {
      const auto end = std::ranges::copy(parameters_, job.state->begin()).out;
      std::ranges::copy(outer_.momentum(), end);
      done.state = std::move(job.state);
    }
    for (const Force& force : job.forces) {
      const std::vector<float>& values = *force.values;
      for (std::size_t i = 0; i < values.size(); ++i) parameters_[i] += force.scale * values[i];
      for (std::size_t i = 0; i < checksum_.size(); ++i) checksum_[i] += force.checksum[i];
    }
    if (job.mix) {
      mixing_->run(*job.mix, step_, job.steps, host, {});
      done.mix = std::move(job.mix);
    } else {
      take_steps(job.steps, {}, done.score);
    }
    if (job.gradient) {
      done.score = compute(*job.gradient);
      done.gradient_samples = job.gradient->all_samples();
    }
    done.step = step_;
    done.steps_run = step_ - before;
    done.learning_rate = learning_rate_;
    if (population_) done.hyperparameters = {learning_rate_, 0};
    if (population_ && job.validate) done.validation_loss = true_loss(parameters_);
    if (job.snapshot) {
      job.snapshot->values = parameters_;
      job.snapshot->rest.clear();
      if (job.snapshot_rest) append({{learning_rate_, 0}, step_}, job.snapshot->rest);
      job.snapshot->checksum = checksum_;
      job.snapshot->step = step_;
      done.snapshot = std::move(job.snapshot);
    }
    done.spent = std::move(job.forces);
    return done;
  }

  void mix_by(const MixRule& rule, std::uint64_t run_seed) override {
    mixing_.emplace(rule, parameters_.size(), run_seed, 1.0);
  }
  void join_population(const Hyperparameters& first) override {
    population_ = true;
    learning_rate_ = first.learning_rate;
  }
  std::uint64_t step() const override { return step_; }
  std::span<const float> parameters() const override { return parameters_; }
  const ConservationChecksum& checksum() const override { return checksum_; }
  Image image() const override {
    const auto momentum = outer_.momentum();
    Image image{
        parameters_,
        {.vectors = {{"outer_momentum", {momentum.begin(), momentum.end()}}}, .step = step_},
        checksum_,
        step_};
    if (mixing_) {
      for (auto& [name, values] : mixing_->mixer().lasting()) {
        image.optimizer.vectors.emplace_back(name, std::move(values));
      }
    }
    if (population_) image.optimizer.hyperparameters = {learning_rate_, 0};
    return image;
  }
  void restore(const Image& image) override {
    parameters_ = image.parameters;
    outer_.adopt(image.optimizer.vectors.front().second);
    for (const auto& [name, values] : image.optimizer.vectors) {
      if (mixing_) mixing_->mixer().restore(name, values);
    }
    if (image.optimizer.hyperparameters) {
      learning_rate_ = image.optimizer.hyperparameters->learning_rate;
    }
    checksum_ = image.checksum;
    step_ = image.step;
  }

 protected:
  virtual Score one_step(std::uint64_t step, std::span<float> parameters) = 0;
  /// The gradient at `parameters` into the first elements of `out`.
  virtual Score gradient(std::uint64_t step, std::span<const float> parameters,
                         std::span<float> out) = 0;
  /// Without noise: the validation loss in a population.
  virtual double true_loss(std::span<const float> parameters) const = 0;
  double learning_rate() const { return learning_rate_; }
  std::size_t number() const { return number_; }

 private:
  void adopt(const DownloadedModel& fetched) {
    const std::span<const float> values(fetched.values);
    const auto tail = population_ ? tail_of(values) : std::nullopt;
    check(values.size() == parameters_.size() + (tail ? replica_tail_elements : 0),
          "a model has the layout's size");
    std::ranges::copy(values.first(parameters_.size()), parameters_.begin());
    step_ = fetched.step;
    if (tail) learning_rate_ = tail->hyperparameters.learning_rate;
  }

  void take_steps(std::uint64_t steps, const std::function<void(std::span<float>)>& direct,
                  Score& score) {
    std::vector<float> slope(direct ? parameters_.size() : 0);
    for (std::uint64_t i = 0; i < steps; ++i, ++step_) {
      if (!direct) {
        score += one_step(step_, parameters_);
        continue;
      }
      score += gradient(step_, parameters_, slope);
      direct(slope);
      descend(parameters_, slope);
    }
  }

  void update(const Job& job) {
    const auto mean = std::span<const float>(*job.update).first(parameters_.size());
    if (job.update_steps > 0) {
      outer_.step(parameters_, mean);
    } else {
      descend(parameters_, mean);
    }
    step_ += std::max<std::uint64_t>(1, job.update_steps);
  }

  void descend(std::vector<float>& x, std::span<const float> gradient) const {
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] -= static_cast<float>(learning_rate_) * gradient[i];
    }
  }

  Score compute(const GradientOrder& order) {
    const auto out = std::span(*order.values).first(parameters_.size());
    if (order.local_steps == 0) return gradient(step_, parameters_, out);
    std::vector<float> x = parameters_;
    Score score;
    for (std::uint64_t i = 0; i < order.local_steps; ++i) {
      const Score one = gradient(step_ + i, x, out);
      score += one;
      descend(x, out);
    }
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = parameters_[i] - x[i];
    return score;
  }

  std::vector<float> parameters_;
  OuterStep outer_;
  std::optional<MixRunner> mixing_;
  std::size_t number_;
  ConservationChecksum checksum_;
  std::uint64_t step_ = 0;
  double learning_rate_;
  bool population_ = false;  ///< The learning rate is a part of its state.
};

class QuadraticWorkload : public VectorWorkload {
 public:
  QuadraticWorkload(const QuadraticSpec& spec, std::size_t peer, const LocalSteps& local)
      : VectorWorkload(std::vector<float>(spec.dimension, 0), peer, spec.learning_rate, local),
        optimum_(quadratic_optimum(spec, peer)),
        noise_(spec.noise),
        draws_(Rng(spec.seed).fork("noise").fork(peer)) {
    for (std::size_t k = 0; k < spec.dimension; ++k) curvature_.push_back(curvature(spec, k));
  }

 private:
  Score one_step(std::uint64_t step, std::span<float> x) override {
    // A function of the step, so that a restored replica draws what it would have drawn.
    Rng draws = draws_.fork(step);
    Score score{.samples = 1, .predictions = 1};
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double apart = x[k] - optimum_[k];
      score.loss += 0.5 * curvature_[k] * apart * apart;
      x[k] -= static_cast<float>(learning_rate() * (curvature_[k] * apart + noise(draws)));
    }
    return score;
  }

  Score gradient(std::uint64_t step, std::span<const float> x, std::span<float> out) override {
    Rng draws = draws_.fork(step);
    Score score{.samples = 1, .predictions = 1};
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double apart = x[k] - optimum_[k];
      score.loss += 0.5 * curvature_[k] * apart * apart;
      out[k] = static_cast<float>(curvature_[k] * apart + noise(draws));
    }
    return score;
  }

  /// Bias and variance depend only on mean and deviation, and a normal draw would take more time
  /// than all else in a world.
  double noise(Rng& draws) const { return noise_ * std::sqrt(12.0) * (draws.uniform() - 0.5); }

  double true_loss(std::span<const float> x) const override {
    double loss = 0;
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double apart = x[k] - optimum_[k];
      loss += 0.5 * curvature_[k] * apart * apart;
    }
    return loss;
  }

  std::vector<double> optimum_;
  std::vector<double> curvature_;
  double noise_;
  Rng draws_;
};

class IdleWorkload : public VectorWorkload {
 public:
  using VectorWorkload::VectorWorkload;

 private:
  Score one_step(std::uint64_t, std::span<float>) override {
    return {.samples = 1, .predictions = 1};
  }

  /// Draws, so that sums of other peers' gradients can be told apart.
  Score gradient(std::uint64_t step, std::span<const float> x, std::span<float> out) override {
    Rng draws = Rng(number()).fork(step);
    for (std::size_t k = 0; k < x.size(); ++k) out[k] = static_cast<float>(draws.uniform() - 0.5);
    return {.samples = 1, .predictions = 1};
  }

  double true_loss(std::span<const float>) const override { return 0; }
};

}  // namespace

std::unique_ptr<Workload> training_workload(Replica replica) {
  return std::make_unique<TrainingWorkload>(std::move(replica));
}

std::unique_ptr<Workload> quadratic_workload(const QuadraticSpec& spec, std::size_t peer,
                                             const LocalSteps& local) {
  return std::make_unique<QuadraticWorkload>(spec, peer, local);
}

std::unique_ptr<Workload> stage_workload(StageReplica replica) {
  return std::make_unique<StageWorkload>(std::move(replica));
}

std::unique_ptr<Workload> idle_stage_workload(std::vector<StageSize> sizes) {
  return std::make_unique<IdleStageWorkload>(std::move(sizes));
}

std::vector<double> quadratic_optimum(const QuadraticSpec& spec, std::size_t peer) {
  Rng rng = Rng(spec.seed).fork("optimum").fork(peer);
  std::vector<double> optimum;
  for (std::size_t k = 0; k < spec.dimension; ++k) {
    optimum.push_back(1 + spec.disagreement * rng.normal());
  }
  return optimum;
}

std::vector<double> common_optimum(const QuadraticSpec& spec, std::size_t peers) {
  std::vector<std::size_t> all(peers);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return common_optimum(spec, all);
}

std::vector<double> common_optimum(const QuadraticSpec& spec, std::span<const std::size_t> peers) {
  std::vector<double> mean(spec.dimension);
  for (const std::size_t peer : peers) {
    const std::vector<double> own = quadratic_optimum(spec, peer);
    for (std::size_t k = 0; k < mean.size(); ++k) {
      mean[k] += own[k] / static_cast<double>(peers.size());
    }
  }
  return mean;
}

double quadratic_excess(const QuadraticSpec& spec, std::span<const double> optimum,
                        std::span<const float> model) {
  double excess = 0;
  for (std::size_t k = 0; k < optimum.size(); ++k) {
    const double apart = model[k] - optimum[k];
    excess += 0.5 * curvature(spec, k) * apart * apart;
  }
  return excess;
}

std::unique_ptr<Workload> idle_workload(std::size_t dimension, std::uint64_t seed, std::size_t peer,
                                        bool alike, const LocalSteps& local) {
  Rng rng = Rng(seed).fork("idle").fork(alike ? 0 : peer);
  std::vector<float> parameters(dimension);
  for (float& value : parameters) value = static_cast<float>(rng.normal());
  return std::make_unique<IdleWorkload>(std::move(parameters), peer, 0.01, local);
}

}  // namespace gv
