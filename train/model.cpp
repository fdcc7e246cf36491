// A network with its loss: what trainers and evaluations use.
#include "train/model.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "consensus/base/check.hpp"
#include "train/layers/loss.hpp"
#include "train/layers/network.hpp"
#include "train/layers/plan.hpp"

namespace gv {

Problems problems(const ModelSpec& spec, SampleShape input, std::size_t predictions) {
  Problems found;
  const ModelPlan plan = plan_model(spec, input, found);
  if (!found.empty() || predictions == 1) return found;
  const SampleShape& last = plan.layers.back().out;
  if (last[0] != predictions || last[1] != 1) {
    found.push_back(
        {"layers",
         "the model does not answer at each of " + std::to_string(predictions) + " positions",
         "use kind = \"transformer\", or layers that keep the positions apart"});
  }
  return found;
}

struct Model::Impl {
  Impl(const ModelSpec& spec, SampleShape input, std::size_t usual_batch)
      : loss(spec.loss),
        initial_deviation(spec.initial_deviation),
        plan(plan_model(spec, input, unsound)),
        batch(usual_batch) {
    check(unsound.empty(), "a model is made from a sound spec");
    network_for(batch);
  }

  /// Two sizes are enough for a batch that changes rarely, and memory for activations is dear.
  static constexpr std::size_t networks_max = 2;

  struct Sized {
    std::size_t batch = 0;
    std::unique_ptr<Network<float>> network;
  };

  /// The network for batches of exactly this size.
  Network<float>& network_for(std::size_t size) {
    auto found = std::ranges::find(networks, size, &Sized::batch);
    if (found == networks.end()) {
      if (networks.size() == networks_max) networks.pop_back();
      std::unique_ptr<Network<float>> network = make_onednn_network(plan, size);
      if (!network) network = make_plain_network<float>(plan, size);
      networks.push_back({size, std::move(network)});
      found = networks.end() - 1;
    }
    std::rotate(networks.begin(), found, found + 1);
    return *networks.front().network;
  }

  void check_shape(const Batch& given) const {
    check(given.size > 0, "a batch has samples");
    check(given.inputs.size() == given.size * elements(plan.in), "a batch has the model's shape");
  }

  Score score(std::span<const float> outputs, const Batch& given, std::span<float> gradient) const {
    const bool classifies = loss == LossKind::cross_entropy;
    const std::size_t each = classifies ? given.labels.size() / given.size : 1;
    check(each > 0 && plan.outputs % each == 0, "outputs are as many for each prediction");
    const LossSum sum =
        classifies ? cross_entropy<float>(outputs, given.labels, plan.outputs / each, gradient)
                   : squared_loss<float>(outputs, given.targets, plan.outputs, gradient);
    return {.loss = sum.loss,
            .correct = sum.correct,
            .samples = given.size,
            .predictions = given.size * each};
  }

  /// Of the normal numbers that a tensor begins as; 0 if it begins as something else.
  double deviation_of(const TensorSlot& slot) const {
    constexpr double of_tables = 0.02;
    if (slot.name.ends_with(".tokens") || slot.name.ends_with(".positions")) return of_tables;
    if (!slot.name.ends_with(".weight")) return 0;
    const std::vector<std::size_t>& residual = plan.residual_weights;
    const bool is_last = std::ranges::find(residual, slot.offset) != residual.end();
    return initial_deviation / (is_last ? std::sqrt(static_cast<double>(residual.size())) : 1);
  }

  Problems unsound;
  LossKind loss;
  double initial_deviation;
  ModelPlan plan;
  std::size_t batch;
  std::vector<Sized> networks;  ///< The one used last is the first.
  std::vector<float> padded;
  std::vector<float> d_outputs;
};

Model::Model(const ModelSpec& spec, SampleShape input, std::size_t batch)
    : impl_(std::make_unique<Impl>(spec, input, batch)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

const Layout& Model::layout() const { return impl_->plan.layout; }

std::size_t Model::outputs() const { return impl_->plan.outputs; }

void Model::initialise(std::span<float> parameters, Rng rng) const {
  check(parameters.size() == layout().size(), "parameters have the layout's size");
  for (const TensorSlot& slot : layout().slots()) {
    const std::span<float> values = parameters.subspan(slot.offset, slot.size);
    Rng draw = rng.fork(slot.name);
    if (const double deviation = impl_->deviation_of(slot); deviation > 0) {
      for (float& value : values) value = static_cast<float>(deviation * draw.normal());
    } else if (slot.name.ends_with(".weight")) {
      // He 2015, uniform: the variance 2 / fan-in keeps activations alive through ReLUs.
      const double bound =
          std::sqrt(6.0 * static_cast<double>(slot.shape[0]) / static_cast<double>(slot.size));
      for (float& value : values) value = static_cast<float>((2 * draw.uniform() - 1) * bound);
    } else {
      std::ranges::fill(values, slot.name.ends_with(".gain") ? 1.0f : 0.0f);
    }
  }
}

Score Model::gradient(std::span<const float> parameters, const Batch& batch,
                      std::span<float> gradient, Rng& rng, const ReadyRange& ready) {
  impl_->check_shape(batch);
  Network<float>& network = impl_->network_for(batch.size);
  const std::span<const float> outputs = network.forward(parameters, batch.inputs, true, rng);
  impl_->d_outputs.resize(outputs.size());
  const Score score = impl_->score(outputs, batch, impl_->d_outputs);
  network.backward(parameters, impl_->d_outputs, gradient, ready);
  return score;
}

Score Model::evaluate(std::span<const float> parameters, const Batch& batch) {
  impl_->check_shape(batch);
  check(batch.size <= impl_->batch, "a batch to evaluate fits the model");
  std::span<const float> inputs = batch.inputs;
  if (batch.size < impl_->batch) {
    // The rest of a data set, filled up with zeros: not worth a network of its own.
    impl_->padded.assign(impl_->batch * elements(impl_->plan.in), 0.0f);
    std::ranges::copy(batch.inputs, impl_->padded.begin());
    inputs = impl_->padded;
  }
  Rng unused(0);
  const std::span<const float> outputs =
      impl_->network_for(impl_->batch).forward(parameters, inputs, false, unused);
  return impl_->score(outputs.first(batch.size * impl_->plan.outputs), batch, {});
}

double perplexity(const Score& score) { return std::exp(score.mean_loss()); }

double bits_per_prediction(const Score& score) { return score.mean_loss() / std::numbers::ln2; }

}  // namespace gv
