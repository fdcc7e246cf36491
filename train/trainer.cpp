// The training loop of one replica.
#include "train/trainer.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "base/wide.hpp"
#include "train/data/sampler.hpp"
#include "train/evaluation.hpp"
#include "train/model.hpp"
#include "train/optimizer.hpp"
#include "train/schedule.hpp"

namespace gv {
namespace {

std::size_t outputs_of(const ModelSpec& spec) {
  return spec.layers.empty() ? 0 : spec.layers.back().units;
}

/// The two vectors begin as anchor and model. They become anchor minus model, and the anchor.
GV_WIDE void take_back(float* __restrict anchor, float* __restrict x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float from = anchor[i];
    anchor[i] = from - x[i];
    x[i] = from;
  }
}

}  // namespace

struct Trainer::Impl {
  /// Samples that it does not learn from, and a model for batches of them.
  struct Validation {
    std::shared_ptr<const DataSet> samples;
    Model model;
  };

  Impl(TrainerSpec given, std::shared_ptr<const DataSet> samples)
      : spec(std::move(given)),
        model(spec.model, samples->shape, spec.batch),
        sampler(samples, spec.seed, spec.peer),
        optimizer(spec.optimizer, model.layout()),
        optimizer_after(spec.optimizer, 0),
        parameters(model.layout().size()),
        shard(std::move(samples)),
        batch_size(spec.batch),
        whole_batch(spec.batch) {
    check(spec.batch > 0, "a batch has samples");
    check(outputs_of(spec.model) == 0 ||
              model.outputs() == outputs_of(spec.model) * shard->predictions,
          "the last layer gives the outputs");
    model.initialise(parameters, Rng(spec.seed).fork("model"));
  }

  /// Continues at another step. Samples drawn for an update that will not come are drawn again.
  void move_to(std::uint64_t new_step, std::uint64_t new_position) {
    step = new_step;
    position = new_position;
    drawn = 0;
    position_after.reset();
  }

  /// Takes over a model of that step. If it is further on, other peers have finished the sum with
  /// our contribution, so our samples count as used and our local steps as made.
  void take_over(std::span<const float> others, std::uint64_t new_step) {
    std::ranges::copy(others, parameters.begin());
    if (new_step <= step) {
      move_to(new_step, position);
      return;
    }
    if (position_after) std::swap(optimizer, optimizer_after);
    move_to(new_step, position_after.value_or(sampler.after(position, drawn)));
  }

  TrainerSpec spec;
  Model model;
  Sampler sampler;
  Optimizer optimizer;
  /// The optimiser and sampler position after the last local_steps(), until these end.
  Optimizer optimizer_after;
  std::optional<std::uint64_t> position_after;
  std::vector<float> parameters;
  std::vector<float> gradient;  ///< Of run_steps(): empty before.
  std::shared_ptr<const DataSet> shard;
  std::optional<Hogwild> hogwild;  ///< Makes the steps of run_steps().
  std::uint64_t step = 0;
  std::uint64_t position = 0;  ///< In the sampler's orders.
  std::size_t drawn = 0;       ///< Samples of the last gradient, until its update.
  std::size_t batch_size;      ///< Of the last gradient.
  std::size_t whole_batch;     ///< Of the last update.
  double factor = 1;           ///< Of every update.
  std::optional<Validation> validation;
};

Trainer::Trainer(TrainerSpec spec, std::shared_ptr<const DataSet> shard)
    : impl_(std::make_unique<Impl>(std::move(spec), std::move(shard))) {}
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer::~Trainer() = default;

const Layout& Trainer::layout() const { return impl_->model.layout(); }

std::uint64_t Trainer::step() const { return impl_->step; }

std::size_t Trainer::samples() const { return impl_->shard->size(); }

double Trainer::learning_rate() const {
  return impl_->factor * gv::learning_rate(impl_->spec.schedule, impl_->whole_batch, impl_->step,
                                           impl_->spec.steps);
}

Hyperparameters Trainer::hyperparameters() const {
  return {impl_->spec.schedule.learning_rate, impl_->optimizer.spec().momentum};
}

void Trainer::set_hyperparameters(const Hyperparameters& hyperparameters) {
  impl_->spec.schedule.learning_rate = hyperparameters.learning_rate;
  impl_->optimizer.set_momentum(hyperparameters.momentum);
}

void Trainer::set_update_factor(double factor) { impl_->factor = factor; }

void Trainer::hold_out(std::shared_ptr<const DataSet> samples) {
  check(samples->size() > 0, "a validation needs samples");
  Model model(impl_->spec.model, samples->shape, evaluation_batch(*samples));
  impl_->validation = Impl::Validation{std::move(samples), std::move(model)};
}

Tunable* Trainer::tunable() { return impl_->validation ? this : nullptr; }

double Trainer::validation_loss() {
  return evaluate(impl_->validation->model, impl_->parameters, *impl_->validation->samples)
      .mean_loss();
}

std::vector<DenseWeights> Trainer::dense_weights() const { return impl_->model.dense_weights(); }

Score Trainer::gradient(std::size_t samples, std::span<float> out, const ReadyRange& ready,
                        std::span<const std::size_t> factored) {
  check(samples > 0 && samples <= std::max(impl_->spec.batch, impl_->spec.batch_max),
        "a trainer knows its largest batch");
  check(out.size() == impl_->parameters.size(), "a gradient has the layout's size");
  const Batch batch = impl_->sampler.batch(impl_->position, samples);
  impl_->drawn = samples;
  impl_->batch_size = samples;
  // Forked by step, so that a resumed run drops the same units.
  Rng rng = Rng(impl_->spec.seed).fork(impl_->spec.peer).fork("dropout").fork(impl_->step);
  return impl_->model.gradient(impl_->parameters, batch, out, rng, ready, factored);
}

void Trainer::update(std::span<const float> mean, std::size_t samples) {
  impl_->whole_batch = samples > 0 ? samples : impl_->spec.batch;
  impl_->optimizer.step(impl_->parameters, mean, learning_rate());
  impl_->move_to(impl_->step + 1, impl_->sampler.after(impl_->position, impl_->drawn));
}

Score Trainer::run_steps(std::uint64_t count, const Direct& direct) {
  const std::uint64_t left = impl_->spec.steps - std::min(impl_->spec.steps, impl_->step);
  const std::uint64_t made = std::min(count, left);
  if (!impl_->hogwild || direct) return take_steps(made, impl_->spec.batch, direct);
  std::uint64_t position = impl_->position;
  ScheduleSpec schedule = impl_->spec.schedule;
  schedule.learning_rate *= impl_->factor;
  const Score score = impl_->hogwild->run(impl_->parameters, schedule, impl_->step, position, made);
  impl_->whole_batch = impl_->spec.batch;
  impl_->optimizer.count(made);
  impl_->move_to(impl_->step + made, position);
  return score;
}

void Trainer::step_together(RunTogether together) {
  impl_->hogwild.emplace(impl_->spec, impl_->shard, std::move(together));
}

Score Trainer::take_steps(std::uint64_t count, std::size_t samples, const Direct& direct) {
  Score total;
  impl_->gradient.resize(impl_->parameters.size());
  for (std::uint64_t i = 0; i < count; ++i) {
    const Score score = gradient(samples, impl_->gradient);
    if (direct) direct(impl_->gradient);
    update(impl_->gradient);
    total += score;
  }
  return total;
}

Score Trainer::local_steps(std::uint64_t steps, std::size_t samples, std::span<float> out) {
  check(out.size() == impl_->parameters.size(), "a change has the layout's size");
  const std::uint64_t step = impl_->step;
  const std::uint64_t position = impl_->position;
  std::ranges::copy(impl_->parameters, out.begin());
  impl_->optimizer_after = impl_->optimizer;
  const Score score = take_steps(steps, samples);
  std::swap(impl_->optimizer, impl_->optimizer_after);
  const std::uint64_t position_after = impl_->position;
  impl_->move_to(step, position);
  impl_->position_after = position_after;
  take_back(out.data(), impl_->parameters.data(), out.size());
  return score;
}

void Trainer::end_local_steps(std::span<const float> parameters, std::uint64_t steps) {
  check(parameters.size() == impl_->parameters.size(), "a model has the layout's size");
  std::ranges::copy(parameters, impl_->parameters.begin());
  if (impl_->position_after) std::swap(impl_->optimizer, impl_->optimizer_after);
  impl_->move_to(impl_->step + steps, impl_->position_after.value_or(impl_->position));
}

std::span<const float> Trainer::parameters() const { return impl_->parameters; }

std::span<float> Trainer::live_parameters() { return impl_->parameters; }

void Trainer::go_on_at(std::uint64_t step) { impl_->move_to(step, impl_->position); }

void Trainer::adopt(std::span<const float> parameters, std::uint64_t step) {
  check(parameters.size() == impl_->parameters.size(), "a model has the layout's size");
  std::ranges::copy(parameters, impl_->parameters.begin());
  impl_->optimizer.reset();
  impl_->move_to(step, impl_->sampler.after_batches(step, impl_->spec.batch));
}

std::size_t Trainer::optimizer_size() const { return impl_->optimizer.state_size(); }

void Trainer::copy_optimizer(std::span<float> out) const { impl_->optimizer.copy_state(out); }

std::uint64_t Trainer::updates() const { return impl_->optimizer.updates(); }

void Trainer::adopt_model(std::span<const float> parameters, std::uint64_t step) {
  check(parameters.size() == impl_->parameters.size(), "a model has the layout's size");
  impl_->take_over(parameters, step);
}

void Trainer::adopt_state(std::span<const float> parameters, std::span<const float> optimizer,
                          std::uint64_t step, std::uint64_t updates) {
  adopt_model(parameters, step);
  impl_->optimizer.adopt_state(optimizer, updates);
}

OptimizerState Trainer::optimizer_state() const {
  return {.vectors = impl_->optimizer.vectors(),
          .step = impl_->step,
          .updates = impl_->optimizer.updates(),
          .position = impl_->position};
}

std::string Trainer::restore(std::span<const float> parameters, const OptimizerState& state) {
  if (parameters.size() != impl_->parameters.size()) return "the model has another size";
  std::string problem = impl_->optimizer.restore(state.vectors, state.updates);
  if (!problem.empty()) return problem;
  std::ranges::copy(parameters, impl_->parameters.begin());
  impl_->move_to(state.step, state.position.value_or(
                                 impl_->sampler.after_batches(state.step, impl_->spec.batch)));
  return problem;
}

void Trainer::prefetch() {
  const std::uint64_t next =
      impl_->position_after.value_or(impl_->sampler.after(impl_->position, impl_->drawn));
  impl_->sampler.prefetch(next, impl_->batch_size);
}

}  // namespace gv
