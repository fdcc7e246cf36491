// Trains one replica: owns the live parameters, the optimiser and the data, and runs tasks on them.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "base/magnitude.hpp"
#include "base/wide.hpp"
#include "train/built_in_learner.hpp"
#include "train/data/sampler.hpp"
#include "train/evaluation.hpp"
#include "train/hogwild.hpp"
#include "train/model.hpp"
#include "train/optimizer.hpp"
#include "train/parameter_bound.hpp"
#include "train/schedule.hpp"

namespace gv {
namespace {

/// The largest batch that hyperparameters from a file may set. A config has the same limit.
constexpr double largest_batch = 65536;

/// The number of outputs that the last layer's settings state; 0 if they state none.
std::size_t outputs_of(const ModelSpec& spec) {
  const bool says = !spec.layers.empty() && spec.layers.back().kind != LayerKind::clusters;
  return says ? spec.layers.back().units : 0;
}

/// Undoes local steps: replaces `anchor` with anchor - x, and `x` with the old anchor.
GV_WIDE void take_back(float* __restrict anchor, float* __restrict x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float from = anchor[i];
    anchor[i] = from - x[i];
    x[i] = from;
  }
}

/// The built-in learner. In addition to the rules of Learner, gradient() takes at least one sample
/// of the shard, and at most the larger of `batch` and `batch_max`. A call takes some milliseconds
/// longer if its batch size differs from the last two. A task throws DataError if it needs samples
/// in files that cannot be read. Then all steps before the failed one are complete, and the failed
/// step has changed nothing.
class Trainer final : public Learner, public Tunable {
 public:
  /// This replica trains on `shard`, which is shared and immutable. `aside`: see Sampler.
  Trainer(TrainerSpec spec, std::shared_ptr<const DataSet> shard, RunAside aside)
      : spec_(std::move(spec)),
        model_(spec_.model, shard->shape, spec_.batch),
        sampler_(shard, spec_.seed, spec_.sampling_peer(), std::move(aside)),
        optimizer_(spec_.optimizer, model_.layout(), model_.statistics()),
        optimizer_after_(spec_.optimizer, 0),
        parameters_(model_.layout().size()),
        shard_(std::move(shard)),
        batch_size_(spec_.batch),
        whole_batch_(spec_.batch) {
    check(spec_.batch > 0, "a batch has samples");
    check(outputs_of(spec_.model) == 0 ||
              model_.outputs() == outputs_of(spec_.model) * shard_->predictions,
          "the last layer gives the outputs");
    model_.initialise(parameters_, Rng(spec_.seed).fork("model"));
    bound_.emplace(largest_magnitude(parameters_), model_.statistics());
  }

  /// From now on, run_steps() without `direct` uses `spec.threads` parallel workers, which
  /// `together` runs (see Hogwild). Only for plain SGD.
  void step_together(RunTogether together) { hogwild_.emplace(spec_, shard_, std::move(together)); }

  /// From now on, this replica can be a member of a population. It is validated on `samples`, of
  /// which there must be at least one.
  void hold_out(std::shared_ptr<const DataSet> samples) { validation_ = on(std::move(samples)); }

  /// From now on, test_merit() measures the model on `samples`, of which there must be at least
  /// one.
  void test_on(std::shared_ptr<const DataSet> samples) { test_ = on(std::move(samples)); }

  const Layout& layout() const override { return model_.layout(); }
  std::vector<DenseWeights> dense_weights() const override { return model_.dense_weights(); }
  std::size_t samples() const override { return shard_->size(); }
  std::span<const float> parameters() const override { return parameters_; }
  std::span<float> live_parameters() override {
    largest_.reset();
    return parameters_;
  }
  std::uint64_t step() const override { return step_; }

  double learning_rate() const override {
    return factor_ *
           learning_rate_at(spec_.schedule, whole_batch_, step_, position_at(step_), spec_.steps);
  }

  Score run_steps(std::uint64_t count, const Direct& direct) override {
    const std::uint64_t left = spec_.steps - std::min(spec_.steps, step_);
    const std::uint64_t made = spec_.follows_swarm ? count : std::min(count, left);
    if (!hogwild_ || direct) return take_steps(made, spec_.batch * batch_growth_, direct);
    std::uint64_t position = position_;
    ScheduleSpec schedule = spec_.schedule;
    schedule.learning_rate *= factor_;
    const auto rate = [&](std::uint64_t step) {
      return learning_rate_at(schedule, spec_.batch, step, position_at(step), spec_.steps);
    };
    const Score score =
        hogwild_->run(parameters_, rate, optimizer_.spec().weight_decay, step_, position, made);
    whole_batch_ = spec_.batch;
    optimizer_.count(made);
    move_to(step_ + made, position);
    if (holds_steps_) hold(first_largest_);
    return score;
  }

  Score gradient(std::size_t samples, std::span<float> out, const ReadyRange& ready,
                 std::span<const std::size_t> factored) override {
    check(samples > 0 && samples <= std::max(spec_.batch, spec_.batch_max),
          "a trainer knows its largest batch");
    check(out.size() == parameters_.size(), "a gradient has the layout's size");
    const Batch batch = sampler_.batch(position_, samples);
    drawn_ = samples;
    batch_size_ = samples;
    // The generator is forked by step, so that a resumed run drops the same units.
    Rng rng = Rng(spec_.seed).fork(spec_.peer).fork("dropout").fork(step_);
    return model_.gradient(parameters_, batch, out, rng, ready, factored);
  }

  void update(std::span<const float> mean, std::size_t samples) override {
    const float before = largest_allowed();
    step_by(mean, samples);
    hold(before);
  }
  void change_by_others(const Change& change) override {
    const float before = largest_allowed();
    change(live_parameters());
    hold(before);
  }
  std::uint64_t held() const override { return held_; }
  void hold_steps(bool always) override {
    if (always && !holds_steps_) admit_as_first();
    holds_steps_ = always;
  }
  float parameter_bound() const override { return bound_->bound_of_all(first_largest_); }

  Score local_steps(std::uint64_t steps, std::size_t samples, std::span<float> out) override {
    check(out.size() == parameters_.size(), "a change has the layout's size");
    const std::uint64_t step = step_;
    const std::uint64_t position = position_;
    std::ranges::copy(parameters_, out.begin());
    optimizer_after_ = optimizer_;
    const Score score = take_steps(steps, samples, {});
    std::swap(optimizer_, optimizer_after_);
    const std::uint64_t position_after = position_;
    move_to(step, position);
    position_after_ = position_after;
    take_back(out.data(), parameters_.data(), out.size());
    return score;
  }

  void end_local_steps(std::span<const float> parameters, std::uint64_t steps) override {
    check(parameters.size() == parameters_.size(), "a model has the layout's size");
    const float before = largest_allowed();
    std::ranges::copy(parameters, parameters_.begin());
    if (position_after_) std::swap(optimizer_, optimizer_after_);
    move_to(step_ + steps, position_after_.value_or(position_));
    hold(before);
  }

  void go_on_at(std::uint64_t step) override {
    move_to(step, position_);
    progress_at_ = step;
  }

  /// The sampler continues where `step` batches of the usual size would have left it.
  void adopt(std::span<const float> parameters, std::uint64_t step) override {
    check(parameters.size() == parameters_.size(), "a model has the layout's size");
    const bool is_first = step_ == 0;
    std::ranges::copy(parameters, parameters_.begin());
    optimizer_.reset();
    move_to(step, sampler_.after_batches(step, spec_.batch));
    progress_at_ = step;
    if (is_first) admit_as_first();
  }

  void adopt_model(std::span<const float> parameters, std::uint64_t step) override {
    check(parameters.size() == parameters_.size(), "a model has the layout's size");
    take_over(parameters, step);
  }

  void adopt_state(std::span<const float> parameters, std::span<const float> optimizer,
                   std::uint64_t step, std::uint64_t updates) override {
    adopt_model(parameters, step);
    optimizer_.adopt_state(optimizer, updates);
  }

  std::size_t optimizer_size() const override { return optimizer_.state_size(); }
  void copy_optimizer(std::span<float> out) const override { optimizer_.copy_state(out); }
  bool is_possible(std::span<const float> state) const override {
    return optimizer_.is_possible(state);
  }
  std::uint64_t updates() const override { return optimizer_.updates(); }

  OptimizerState optimizer_state() const override {
    return {.vectors = optimizer_.vectors(),
            .step = step_,
            .updates = optimizer_.updates(),
            .position = position_};
  }

  /// Does not change the hyperparameters.
  std::string restore(std::span<const float> parameters, const OptimizerState& state) override {
    if (parameters.size() != parameters_.size()) return "the model has another size";
    std::string problem = optimizer_.restore(state.vectors, state.updates);
    if (!problem.empty()) return problem;
    std::ranges::copy(parameters, parameters_.begin());
    move_to(state.step, state.position.value_or(sampler_.after_batches(state.step, spec_.batch)));
    admit_as_first();
    return problem;
  }

  /// Null before hold_out().
  Tunable* tunable() override { return validation_ ? this : nullptr; }

  /// The current hyperparameters of the schedule and the optimiser. They begin with the spec's
  /// values.
  Hyperparameters hyperparameters() const override {
    Hyperparameters own = spec_.varied;
    own.learning_rate = spec_.schedule.learning_rate;
    own.momentum = optimizer_.spec().momentum;
    return own;
  }

  /// A weight decay or batch of 0 leaves the current one unchanged.
  void set_hyperparameters(const Hyperparameters& hyperparameters) override {
    spec_.varied = hyperparameters;
    spec_.schedule.learning_rate = hyperparameters.learning_rate;
    optimizer_.set_momentum(hyperparameters.momentum);
    if (hyperparameters.weight_decay > 0) {
      optimizer_.set_weight_decay(hyperparameters.weight_decay);
    }
    if (hyperparameters.batch >= 1) {
      spec_.batch = static_cast<std::size_t>(std::min(hyperparameters.batch, largest_batch));
    }
  }

  double validation_loss() override {
    return evaluate(validation_->model, parameters_, *validation_->samples).mean_loss();
  }

  double test_merit() override {
    if (!test_) return 0;
    return merit_of(evaluate(test_->model, parameters_, *test_->samples), *test_->samples).value;
  }

  void set_update_factor(double factor) override { factor_ = factor; }
  void set_batch_growth(std::uint64_t growth) override { batch_growth_ = growth; }
  void set_progress(double fraction) override {
    progress_ = fraction;
    progress_at_ = step_;
  }
  void read_from(std::uint64_t position) override { move_to(step_, position); }

  /// Reads the batch of the next step ahead, assuming that it is as large as the last one. Does not
  /// change any result.
  void prefetch() override {
    // Between a gradient and its update, the place of the next batch of leased data is not yet
    // known.
    if (spec_.is_leased && (drawn_ > 0 || position_after_)) return;
    const std::uint64_t next = position_after_.value_or(sampler_.after(position_, drawn_));
    sampler_.prefetch(next, batch_size_);
  }

 private:
  /// Samples that this replica does not train on, and a model to evaluate them in batches.
  struct Evaluation {
    std::shared_ptr<const DataSet> samples;
    Model model;
  };

  Evaluation on(std::shared_ptr<const DataSet> samples) const {
    check(samples->size() > 0, "an evaluation needs samples");
    Model model(spec_.model, samples->shape, evaluation_batch(*samples));
    return {std::move(samples), std::move(model)};
  }

  /// The schedule's position at our step `step`. Between reports of progress, the replica assumes
  /// that the swarm advances as if all peers were as fast as this one.
  double position_at(std::uint64_t step) const {
    if (!spec_.follows_swarm) return static_cast<double>(step);
    const auto all = static_cast<double>(spec_.steps);
    const auto since = static_cast<double>(step - std::min(step, progress_at_));
    return std::min(all, progress_ * all + since);
  }

  void step_by(std::span<const float> gradient, std::size_t samples) {
    whole_batch_ = samples > 0 ? samples : spec_.batch;
    const float largest = optimizer_.step(parameters_, gradient, learning_rate());
    move_to(step_ + 1, sampler_.after(position_, drawn_));
    largest_ = largest;
    if (holds_steps_) hold(first_largest_);
  }

  Score take_steps(std::uint64_t count, std::size_t samples, const Direct& direct) {
    Score total;
    gradient_.resize(parameters_.size());
    for (std::uint64_t i = 0; i < count; ++i) {
      const Score score = gradient(samples, gradient_, {}, {});
      if (direct) direct(gradient_);
      step_by(gradient_, 0);
      total += score;
    }
    return total;
  }

  /// Continues at another step. Samples that were drawn for an abandoned update will be drawn
  /// again.
  void move_to(std::uint64_t new_step, std::uint64_t new_position) {
    step_ = new_step;
    position_ = new_position;
    drawn_ = 0;
    position_after_.reset();
    largest_.reset();
  }

  /// The largest magnitude of the parameters that are not running statistics. The value is cached
  /// until the parameters change.
  float largest_parameter() {
    if (!largest_) largest_ = bound_->largest_in(parameters_);
    return *largest_;
  }

  /// The magnitude that parameters may have after a change, even if their bound is smaller.
  float largest_allowed() { return holds_steps_ ? first_largest_ : largest_parameter(); }

  /// Lets the model stay as large as it is now, see hold_steps().
  void admit_as_first() { first_largest_ = std::max(first_largest_, largest_parameter()); }

  /// Clamps parameters and running statistics that a change has made too large. `before`:
  /// largest_allowed() before the change.
  void hold(float before) {
    const float after = largest_parameter();
    largest_ = bound_->hold(parameters_, before, after);
    held_ += bound_->hold_statistics(parameters_) || *largest_ != after ? 1 : 0;
  }

  /// Takes over the model of another step. If it is a later step, other peers have finished the sum
  /// with our contribution, so our samples count as used and our local steps as made.
  void take_over(std::span<const float> others, std::uint64_t new_step) {
    const bool is_first = step_ == 0;
    std::ranges::copy(others, parameters_.begin());
    progress_at_ = new_step;
    if (new_step > step_) {
      if (position_after_) std::swap(optimizer_, optimizer_after_);
      move_to(new_step, position_after_.value_or(sampler_.after(position_, drawn_)));
    } else {
      move_to(new_step, position_);
    }
    if (is_first) admit_as_first();
  }

  TrainerSpec spec_;
  Model model_;
  Sampler sampler_;
  Optimizer optimizer_;
  /// The optimiser after the last local_steps(). Used by end_local_steps().
  Optimizer optimizer_after_;
  std::optional<std::uint64_t> position_after_;
  std::vector<float> parameters_;
  std::optional<ParameterBound> bound_;  ///< Set by the constructor.
  std::optional<float> largest_;         ///< See largest_parameter(). Empty if not known.
  bool holds_steps_ = false;             ///< True if hold_steps() is on.
  /// The largest magnitude of the models that we began or resumed with; 0 until it is needed.
  float first_largest_ = 0;
  std::uint64_t held_ = 0;
  std::vector<float> gradient_;  ///< The gradient in run_steps(). Empty before the first call.
  std::shared_ptr<const DataSet> shard_;
  std::optional<Hogwild> hogwild_;  ///< Set if run_steps() uses several threads.
  std::uint64_t step_ = 0;
  std::uint64_t position_ = 0;  ///< Position in the sampler's order.
  std::size_t drawn_ = 0;    ///< Number of samples in the last gradient; 0 once the update is made.
  std::size_t batch_size_;   ///< Number of samples in the last gradient.
  std::size_t whole_batch_;  ///< Number of samples in the last update.
  double factor_ = 1;        ///< Factor on every update.
  std::uint64_t batch_growth_ = 1;  ///< Factor on the batch of run_steps().
  double progress_ = 0;             ///< The swarm's progress as last reported, 0 to 1.
  std::uint64_t progress_at_ = 0;   ///< Our step when `progress_` was last reported.
  std::optional<Evaluation> validation_;
  std::optional<Evaluation> test_;
};

}  // namespace

std::unique_ptr<Learner> built_in_learner(TrainerSpec spec, std::shared_ptr<const DataSet> shard,
                                          std::shared_ptr<const DataSet> held_out,
                                          RunTogether together, RunAside aside,
                                          std::shared_ptr<const DataSet> test) {
  const bool is_shared_by_threads = spec.threads > 1 && together;
  auto trainer = std::make_unique<Trainer>(std::move(spec), std::move(shard), std::move(aside));
  if (held_out) trainer->hold_out(std::move(held_out));
  if (test) trainer->test_on(std::move(test));
  if (is_shared_by_threads) trainer->step_together(std::move(together));
  return trainer;
}

}  // namespace gv
