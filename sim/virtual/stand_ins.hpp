// Learners in place of real training, and their replicas: quadratics with a known optimum, and
// learners that only take time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "consensus/compression/outer_step.hpp"
#include "peer/modes/pipeline_options.hpp"
#include "peer/node/replica.hpp"
#include "train/learner/learner.hpp"
#include "train/learner/stage_learner.hpp"
#include "train/parameter_bound.hpp"

namespace gv {

/// A learner whose model is one vector, trained by plain gradient descent. All its draws depend
/// only on the step, so a restored replica draws the same numbers again.
class StandIn : public Learner, public Tunable {
 public:
  StandIn(std::vector<float> parameters, double learning_rate);

  /// Makes the learning rate a hyperparameter of this member of a population. Its first value is
  /// `learning_rate`.
  void join_population(double learning_rate);

  const Layout& layout() const override { return layout_; }
  std::span<const float> parameters() const override { return parameters_; }
  std::span<float> live_parameters() override { return parameters_; }
  std::uint64_t step() const override { return step_; }
  double learning_rate() const override { return factor_ * learning_rate_; }

  Score run_steps(std::uint64_t count, const Direct& direct = {}) override;
  Score gradient(std::size_t samples, std::span<float> out, const ReadyRange& ready = {},
                 std::span<const std::size_t> factored = {}) override;
  void update(std::span<const float> mean, std::size_t samples = 0) override;
  void end_local_steps(std::span<const float> parameters, std::uint64_t steps) override;
  void change_by_others(const Change& change) override;
  std::uint64_t held() const override { return held_; }
  void hold_steps(bool always) override;
  float parameter_bound() const override { return bound_.bound_after(first_largest_); }
  Score local_steps(std::uint64_t steps, std::size_t samples, std::span<float> out) override;
  void go_on_at(std::uint64_t step) override { step_ = step; }

  Tunable* tunable() override { return in_population_ ? this : nullptr; }
  Hyperparameters hyperparameters() const override { return {learning_rate_, 0}; }
  void set_hyperparameters(const Hyperparameters& given) override {
    learning_rate_ = given.learning_rate;
  }
  void set_update_factor(double factor) override { factor_ = factor; }
  /// The merit of the model. It rises with the steps from 0 to 1, and is a half after fifty steps.
  double test_merit() override;

 protected:
  /// Makes one step, which changes `x` in place.
  virtual Score step_at(std::uint64_t step, std::span<float> x) = 0;
  /// Writes the gradient at `x` to all of `out`.
  virtual Score gradient_at(std::uint64_t step, std::span<const float> x, std::span<float> out) = 0;

 private:
  void descend(std::span<float> x, std::span<const float> gradient) const;
  void hold(float before);

  Layout layout_;
  std::vector<float> parameters_;
  ParameterBound bound_;
  bool holds_steps_ = false;  ///< See hold_steps().
  float first_largest_ = 0;   ///< The largest magnitude when hold_steps() was turned on.
  std::uint64_t held_ = 0;
  std::uint64_t step_ = 0;
  double learning_rate_;
  double factor_ = 1;
  bool in_population_ = false;
};

/// Peer i minimises f_i(x) = 1/2 sum_k h_k (x_k - c_ik)^2 by plain gradient descent, where c_i is
/// the peer's own optimum. Every gradient has uniform noise with a given deviation. The curvatures
/// h_k rise geometrically from 0.1 to 1. The sum over peers has its optimum at the mean of the c_i,
/// so the bias and variance of any rule are known exactly.
struct QuadraticSpec {
  std::size_t dimension = 64;
  double learning_rate = 0.1;
  double noise = 0.1;
  double disagreement = 1;  ///< Deviation of c_i around the common centre, which is 1 everywhere.
  std::uint64_t seed = 1;
};
std::unique_ptr<StandIn> quadratic_learner(const QuadraticSpec& spec, std::size_t peer);

/// The peer's own optimum c_i, and the optimum of the sum over `peers` peers, which is the mean of
/// their optima.
std::vector<double> quadratic_optimum(const QuadraticSpec& spec, std::size_t peer);
std::vector<double> common_optimum(const QuadraticSpec& spec, std::size_t peers);
/// The optimum of the sum over only these peers. There must be at least one.
std::vector<double> common_optimum(const QuadraticSpec& spec, std::span<const std::size_t> peers);

/// The mean of all f_i at `model`, minus its minimum, which is at `optimum`.
double quadratic_excess(const QuadraticSpec& spec, std::span<const double> optimum,
                        std::span<const float> model);

/// A learner that only takes time. Its parameters are drawn for each peer, or once for all peers if
/// `alike`. They change only through exchanges and sums of drawn gradients.
std::unique_ptr<StandIn> idle_learner(std::size_t dimension, std::uint64_t seed, std::size_t peer,
                                      bool alike = false);

/// A stage learner that only takes time. It has stages of these sizes, whose gradients are 1 for
/// each micro-batch. All parameters of a stage are equal, and each update lowers them by the mean
/// gradient.
std::unique_ptr<StageLearner> idle_stage_learner(const std::vector<StageSize>& sizes);

/// A replica with stages of these sizes that only take time. A crash loses them, so a restarted
/// peer is a newcomer.
std::unique_ptr<Replica> idle_stage_workload(const std::vector<StageSize>& sizes);

/// A replica that minimises the peer's quadratic by gradient descent.
std::unique_ptr<Replica> quadratic_workload(const QuadraticSpec& spec, std::size_t peer,
                                            const LocalSteps& local = {});

/// A replica whose model is a vector of `dimension` values and whose training only takes time.
std::unique_ptr<Replica> idle_workload(std::size_t dimension, std::uint64_t seed, std::size_t peer,
                                       bool alike = false, const LocalSteps& local = {});

}  // namespace gv
