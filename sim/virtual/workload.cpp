// Replicas that train, and two that only look like it from outside.
#include "sim/virtual/workload.hpp"

#include <cmath>
#include <string>
#include <utility>

#include "consensus/base/check.hpp"
#include "consensus/base/rng.hpp"

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
  std::uint64_t step() const override { return replica_.trainer().step(); }
  std::span<const float> parameters() const override { return replica_.trainer().parameters(); }
  const Canary& canary() const override { return replica_.canary(); }

  Image image() const override {
    const auto values = parameters();
    return {{values.begin(), values.end()},
            replica_.trainer().optimizer_state(),
            replica_.canary(),
            step()};
  }

  void restore(const Image& image) override {
    const std::string problem = replica_.trainer().restore(image.parameters, image.optimizer);
    check(problem.empty(), "a virtual peer's own image fits it");
    replica_.set_canary(image.canary);
  }

 private:
  Replica replica_;
};

/// The part that quadratic and idle replicas share: a vector that jobs act upon.
class VectorWorkload : public Workload {
 public:
  VectorWorkload(std::vector<float> parameters, std::size_t peer, double learning_rate)
      : parameters_(std::move(parameters)),
        number_(peer),
        canary_(initial_canary(peer)),
        learning_rate_(learning_rate) {}

  JobDone run(Job job) override {
    JobDone done{.number = job.number};
    if (job.adopt) {
      check(job.adopt->values.size() == parameters_.size(), "a model has the layout's size");
      parameters_ = job.adopt->values;
      step_ = job.adopt->step;
    }
    if (job.become) {
      parameters_.assign(job.become->values->begin(), job.become->values->end());
      step_ = job.become->step;
    }
    if (job.update) {
      for (std::size_t i = 0; i < parameters_.size(); ++i) {
        parameters_[i] -= static_cast<float>(learning_rate_) * (*job.update)[i];
      }
      ++step_;
    }
    if (job.state) {
      job.state->assign(parameters_.begin(), parameters_.end());
      done.state = std::move(job.state);
    }
    for (const Force& force : job.forces) {
      const std::vector<float>& values = *force.values;
      for (std::size_t i = 0; i < values.size(); ++i) parameters_[i] += force.scale * values[i];
      for (std::size_t i = 0; i < canary_.size(); ++i) canary_[i] += force.canary[i];
    }
    for (std::uint64_t i = 0; i < job.steps; ++i) {
      const Score score = one_step(step_ + i, parameters_);
      done.score.loss += score.loss;
      done.score.samples += score.samples;
    }
    step_ += job.steps;
    if (job.gradient) {
      done.score = gradient(step_, parameters_, *job.gradient->values);
      done.gradient_samples = job.gradient->samples;
    }
    done.step = step_;
    done.steps_run = job.steps + (job.update ? 1 : 0);
    done.learning_rate = learning_rate_;
    if (job.snapshot) {
      job.snapshot->values = parameters_;
      job.snapshot->canary = canary_;
      job.snapshot->step = step_;
      done.snapshot = std::move(job.snapshot);
    }
    done.spent = std::move(job.forces);
    return done;
  }

  std::uint64_t step() const override { return step_; }
  std::span<const float> parameters() const override { return parameters_; }
  const Canary& canary() const override { return canary_; }
  Image image() const override { return {parameters_, {.step = step_}, canary_, step_}; }
  void restore(const Image& image) override {
    parameters_ = image.parameters;
    canary_ = image.canary;
    step_ = image.step;
  }

 protected:
  virtual Score one_step(std::uint64_t step, std::span<float> parameters) = 0;
  /// The gradient at `parameters` into the first elements of `out`.
  virtual Score gradient(std::uint64_t step, std::span<const float> parameters,
                         std::span<float> out) = 0;
  double learning_rate() const { return learning_rate_; }
  std::size_t number() const { return number_; }

 private:
  std::vector<float> parameters_;
  std::size_t number_;
  Canary canary_;
  std::uint64_t step_ = 0;
  double learning_rate_;
};

class QuadraticWorkload : public VectorWorkload {
 public:
  QuadraticWorkload(const QuadraticSpec& spec, std::size_t peer)
      : VectorWorkload(std::vector<float>(spec.dimension, 0), peer, spec.learning_rate),
        optimum_(quadratic_optimum(spec, peer)),
        noise_(spec.noise),
        draws_(Rng(spec.seed).fork("noise").fork(peer)) {
    for (std::size_t k = 0; k < spec.dimension; ++k) curvature_.push_back(curvature(spec, k));
  }

 private:
  Score one_step(std::uint64_t step, std::span<float> x) override {
    // A function of the step, so that a restored replica draws what it would have drawn.
    Rng draws = draws_.fork(step);
    Score score{.samples = 1};
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double apart = x[k] - optimum_[k];
      score.loss += 0.5 * curvature_[k] * apart * apart;
      const double noise = noise_ > 0 ? noise_ * draws.normal() : 0;
      x[k] -= static_cast<float>(learning_rate() * (curvature_[k] * apart + noise));
    }
    return score;
  }

  Score gradient(std::uint64_t step, std::span<const float> x, std::span<float> out) override {
    Rng draws = draws_.fork(step);
    Score score{.samples = 1};
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double apart = x[k] - optimum_[k];
      score.loss += 0.5 * curvature_[k] * apart * apart;
      const double noise = noise_ > 0 ? noise_ * draws.normal() : 0;
      out[k] = static_cast<float>(curvature_[k] * apart + noise);
    }
    return score;
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
  Score one_step(std::uint64_t, std::span<float>) override { return {.samples = 1}; }

  /// Draws, so that sums of other peers' gradients can be told apart.
  Score gradient(std::uint64_t step, std::span<const float> x, std::span<float> out) override {
    Rng draws = Rng(number()).fork(step);
    for (std::size_t k = 0; k < x.size(); ++k) out[k] = static_cast<float>(draws.uniform() - 0.5);
    return {.samples = 1};
  }
};

}  // namespace

std::unique_ptr<Workload> training_workload(Replica replica) {
  return std::make_unique<TrainingWorkload>(std::move(replica));
}

std::unique_ptr<Workload> quadratic_workload(const QuadraticSpec& spec, std::size_t peer) {
  return std::make_unique<QuadraticWorkload>(spec, peer);
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
  std::vector<double> mean(spec.dimension);
  for (std::size_t peer = 0; peer < peers; ++peer) {
    const std::vector<double> own = quadratic_optimum(spec, peer);
    for (std::size_t k = 0; k < mean.size(); ++k) mean[k] += own[k] / static_cast<double>(peers);
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
                                        bool alike) {
  Rng rng = Rng(seed).fork("idle").fork(alike ? 0 : peer);
  std::vector<float> parameters(dimension);
  for (float& value : parameters) value = static_cast<float>(rng.normal());
  return std::make_unique<IdleWorkload>(std::move(parameters), peer, 0.01);
}

}  // namespace gv
