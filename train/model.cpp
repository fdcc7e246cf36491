// A network with its loss, as trainers and evaluations use it.
#include "train/model.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "train/layers/initial_values.hpp"
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

Score score_outputs(LossKind loss, std::span<const float> outputs, const Batch& batch,
                    std::span<float> d_outputs) {
  const bool classifies = loss == LossKind::cross_entropy;
  const std::size_t predictions = classifies ? batch.labels.size() : batch.size;
  check(predictions > 0 && outputs.size() % predictions == 0,
        "outputs are as many for each prediction");
  const std::size_t each = outputs.size() / predictions;
  const LossSum sum = classifies ? cross_entropy<float>(outputs, batch.labels, each, d_outputs)
                                 : squared_loss<float>(outputs, batch.targets, each, d_outputs);
  return {
      .loss = sum.loss, .correct = sum.correct, .samples = batch.size, .predictions = predictions};
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

  /// Two sizes are enough for a batch that changes rarely, and activations take much memory.
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

std::vector<DenseWeights> Model::dense_weights() const {
  std::vector<DenseWeights> weights;
  for (const LayerPlan& layer : impl_->plan.layers) {
    if (layer.spec.kind != LayerKind::dense || layer.spec.tied) continue;
    weights.push_back({.offset = layer.weight,
                       .outputs = layer.spec.units,
                       .inputs = elements(layer.in) / layer.rows,
                       .rows = layer.rows});
  }
  return weights;
}

void Model::initialise(std::span<float> parameters, Rng rng) const {
  check(parameters.size() == layout().size(), "parameters have the layout's size");
  gv::initialise(impl_->plan, impl_->initial_deviation, layout(), parameters, rng);
}

Score Model::gradient(std::span<const float> parameters, const Batch& batch,
                      std::span<float> gradient, Rng& rng, const ReadyRange& ready,
                      std::span<const std::size_t> factored) {
  impl_->check_shape(batch);
  Network<float>& network = impl_->network_for(batch.size);
  const std::span<const float> outputs = network.forward(parameters, batch.inputs, true, rng);
  impl_->d_outputs.resize(outputs.size());
  const Score score = score_outputs(impl_->loss, outputs, batch, impl_->d_outputs);
  network.give_factors(factored);
  network.backward(parameters, impl_->d_outputs, gradient, ready);
  return score;
}

Score Model::evaluate(std::span<const float> parameters, const Batch& batch) {
  impl_->check_shape(batch);
  check(batch.size <= impl_->batch, "a batch to evaluate fits the model");
  std::span<const float> inputs = batch.inputs;
  if (batch.size < impl_->batch) {
    // The tail of a data set is filled up with zeros; it is not worth a network of its own.
    impl_->padded.assign(impl_->batch * elements(impl_->plan.in), 0.0f);
    std::ranges::copy(batch.inputs, impl_->padded.begin());
    inputs = impl_->padded;
  }
  Rng unused(0);
  const std::span<const float> outputs =
      impl_->network_for(impl_->batch).forward(parameters, inputs, false, unused);
  return score_outputs(impl_->loss, outputs.first(batch.size * impl_->plan.outputs), batch, {});
}

double perplexity(const Score& score) { return std::exp(score.mean_loss()); }

double bits_per_prediction(const Score& score) { return score.mean_loss() / std::numbers::ln2; }

}  // namespace gv
