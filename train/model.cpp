// A network with its loss: what trainers and evaluations use.
#include "train/model.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "consensus/base/check.hpp"
#include "train/layers/loss.hpp"
#include "train/layers/network.hpp"
#include "train/layers/plan.hpp"

namespace gv {

Problems problems(const ModelSpec& spec, SampleShape input) {
  Problems found;
  plan_model(spec, input, found);
  return found;
}

struct Model::Impl {
  Impl(const ModelSpec& spec, SampleShape input, std::size_t batch_max)
      : loss(spec.loss), plan(plan_model(spec, input, unsound)), batch(batch_max) {
    check(unsound.empty(), "a model is made from a sound spec");
    network = make_onednn_network(plan, batch);
    if (!network) network = make_plain_network<float>(plan, batch);
    d_outputs.resize(batch * plan.outputs);
  }

  /// The network always computes a whole batch: a smaller one is filled up with zeros.
  std::span<const float> forward(std::span<const float> parameters, const Batch& given,
                                 bool training, Rng& rng) {
    check(given.size > 0 && given.size <= batch, "a batch fits the model");
    check(given.inputs.size() == given.size * elements(plan.in), "a batch has the model's shape");
    std::span<const float> inputs = given.inputs;
    if (given.size < batch) {
      padded.assign(batch * elements(plan.in), 0.0f);
      std::ranges::copy(given.inputs, padded.begin());
      inputs = padded;
    }
    return network->forward(parameters, inputs, training, rng).first(given.size * plan.outputs);
  }

  Score score(std::span<const float> outputs, const Batch& given, std::span<float> gradient) const {
    const LossSum sum =
        loss == LossKind::cross_entropy
            ? cross_entropy<float>(outputs, given.labels.first(given.size), plan.outputs, gradient)
            : squared_loss<float>(outputs, given.targets, plan.outputs, gradient);
    return {.loss = sum.loss, .correct = sum.correct, .samples = given.size};
  }

  Problems unsound;
  LossKind loss;
  ModelPlan plan;
  std::size_t batch;
  std::unique_ptr<Network<float>> network;
  std::vector<float> padded;
  std::vector<float> d_outputs;
};

Model::Model(const ModelSpec& spec, SampleShape input, std::size_t batch_max)
    : impl_(std::make_unique<Impl>(spec, input, batch_max)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

const Layout& Model::layout() const { return impl_->plan.layout; }

std::size_t Model::outputs() const { return impl_->plan.outputs; }

void Model::initialise(std::span<float> parameters, Rng rng) const {
  check(parameters.size() == layout().size(), "parameters have the layout's size");
  for (const TensorSlot& slot : layout().slots()) {
    const std::span<float> values = parameters.subspan(slot.offset, slot.size);
    if (slot.name.ends_with(".weight")) {
      // He 2015, uniform: the variance 2 / fan-in keeps activations alive through ReLUs.
      const double bound =
          std::sqrt(6.0 * static_cast<double>(slot.shape[0]) / static_cast<double>(slot.size));
      Rng draw = rng.fork(slot.name);
      for (float& value : values) value = static_cast<float>((2 * draw.uniform() - 1) * bound);
    } else {
      std::ranges::fill(values, slot.name.ends_with(".gain") ? 1.0f : 0.0f);
    }
  }
}

Score Model::gradient(std::span<const float> parameters, const Batch& batch,
                      std::span<float> gradient, Rng& rng) {
  const std::span<const float> outputs = impl_->forward(parameters, batch, true, rng);
  std::ranges::fill(impl_->d_outputs, 0.0f);
  const Score score =
      impl_->score(outputs, batch, std::span(impl_->d_outputs).first(outputs.size()));
  impl_->network->backward(parameters, impl_->d_outputs, gradient);
  return score;
}

Score Model::evaluate(std::span<const float> parameters, const Batch& batch) {
  Rng unused(0);
  return impl_->score(impl_->forward(parameters, batch, false, unused), batch, {});
}

}  // namespace gv
