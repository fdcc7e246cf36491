// The training loop of one replica.
#include "train/trainer.hpp"

#include <algorithm>
#include <utility>

#include "consensus/base/check.hpp"
#include "consensus/base/wide.hpp"
#include "train/data/sampler.hpp"
#include "train/optimizer.hpp"
#include "train/schedule.hpp"

namespace gv {
namespace {

std::size_t outputs_of(const ModelSpec& spec) {
  return spec.layers.empty() ? 0 : spec.layers.back().units;
}

GV_WIDE void add_scaled(float* __restrict x, const float* __restrict force, std::size_t n,
                        float scale) {
  for (std::size_t i = 0; i < n; ++i) x[i] += scale * force[i];
}

}  // namespace

struct Trainer::Impl {
  Impl(TrainerSpec given, std::shared_ptr<const DataSet> shard)
      : spec(std::move(given)),
        model(spec.model, shard->shape, spec.batch),
        sampler(shard, spec.batch, spec.seed, spec.peer),
        optimizer(spec.optimizer, model.layout().size()),
        parameters(model.layout().size()),
        gradient(model.layout().size()) {
    check(outputs_of(spec.model) == 0 || model.outputs() == outputs_of(spec.model),
          "the last layer gives the outputs");
    model.initialise(parameters, Rng(spec.seed).fork("model"));
  }

  TrainerSpec spec;
  Model model;
  Sampler sampler;
  Optimizer optimizer;
  std::vector<float> parameters;
  std::vector<float> gradient;
  std::uint64_t step = 0;
};

Trainer::Trainer(TrainerSpec spec, std::shared_ptr<const DataSet> shard)
    : impl_(std::make_unique<Impl>(std::move(spec), std::move(shard))) {}
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer::~Trainer() = default;

const Layout& Trainer::layout() const { return impl_->model.layout(); }

std::uint64_t Trainer::step() const { return impl_->step; }

double Trainer::learning_rate() const {
  return gv::learning_rate(impl_->spec.schedule, impl_->spec.batch, impl_->step, impl_->spec.steps);
}

Score Trainer::run_steps(std::uint64_t count) {
  Score total;
  const std::uint64_t left = impl_->spec.steps - std::min(impl_->spec.steps, impl_->step);
  for (std::uint64_t i = 0; i < std::min(count, left); ++i) {
    const Batch batch = impl_->sampler.batch(impl_->step);
    // Forked by step, so that a resumed run drops the same units.
    Rng rng = Rng(impl_->spec.seed).fork(impl_->spec.peer).fork("dropout").fork(impl_->step);
    const Score score = impl_->model.gradient(impl_->parameters, batch, impl_->gradient, rng);
    impl_->optimizer.step(impl_->parameters, impl_->gradient, learning_rate());
    ++impl_->step;
    total.loss += score.loss;
    total.correct += score.correct;
    total.samples += score.samples;
  }
  return total;
}

void Trainer::add(std::span<const float> force, float scale) {
  check(force.size() == impl_->parameters.size(), "a force has the layout's size");
  add_scaled(impl_->parameters.data(), force.data(), force.size(), scale);
}

std::span<const float> Trainer::parameters() const { return impl_->parameters; }

void Trainer::adopt(std::span<const float> parameters, std::uint64_t step) {
  check(parameters.size() == impl_->parameters.size(), "a model has the layout's size");
  std::ranges::copy(parameters, impl_->parameters.begin());
  impl_->optimizer.reset();
  impl_->step = step;
}

OptimizerState Trainer::optimizer_state() const {
  return {.vectors = impl_->optimizer.vectors(),
          .step = impl_->step,
          .updates = impl_->optimizer.updates()};
}

std::string Trainer::restore(std::span<const float> parameters, const OptimizerState& state) {
  if (parameters.size() != impl_->parameters.size()) return "the model has another size";
  std::string problem = impl_->optimizer.restore(state.vectors, state.updates);
  if (!problem.empty()) return problem;
  std::ranges::copy(parameters, impl_->parameters.begin());
  impl_->step = state.step;
  return problem;
}

void Trainer::prefetch() { impl_->sampler.prefetch(impl_->step); }

}  // namespace gv
