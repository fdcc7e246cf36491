// A network with its loss, for training and evaluation.
#include "train/model.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "train/layers/initial_values.hpp"
#include "train/layers/loss.hpp"
#include "train/layers/subnormals_flushed.hpp"

namespace gv {
namespace {

/// Number of networks to keep, each for one batch size. Two are enough, because the batch rarely
/// changes. More would need much memory for activations.
constexpr std::size_t networks_max = 2;

}  // namespace

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
  const bool classifies = takes_labels(loss);
  const std::size_t predictions = classifies ? batch.labels.size() : batch.size;
  check(predictions > 0 && outputs.size() % predictions == 0,
        "outputs are as many for each prediction");
  const SubnormalsFlushed flushed;
  const std::size_t each = outputs.size() / predictions;
  LossSum sum;
  switch (loss) {
    case LossKind::cross_entropy:
      sum = cross_entropy<float>(outputs, batch.labels, each, d_outputs);
      break;
    case LossKind::hinge:
      sum = hinge_loss<float>(outputs, batch.labels, each, d_outputs);
      break;
    case LossKind::squared:
      sum = squared_loss<float>(outputs, batch.targets, each, d_outputs);
      break;
    case LossKind::reconstruction:
      sum = squared_loss<float>(outputs, batch.inputs, each, d_outputs);
      break;
  }
  return {.loss = sum.loss,
          .correct = sum.correct,
          .samples = batch.size,
          .predictions = predictions,
          .of_inputs = loss == LossKind::reconstruction};
}

Model::Model(const ModelSpec& spec, SampleShape input, std::size_t batch)
    : loss_(spec.loss),
      initial_deviation_(spec.initial_deviation),
      plan_(plan_model(spec, input, unsound_)),
      batch_(batch) {
  check(unsound_.empty(), "a model is made from a sound spec");
  network_for(batch);
}

Network<float>& Model::network_for(std::size_t size) {
  auto found = std::ranges::find(networks_, size, &Sized::batch);
  if (found == networks_.end()) {
    if (networks_.size() == networks_max) networks_.pop_back();
    networks_.push_back({size, make_network(plan_, size)});
    found = networks_.end() - 1;
  }
  std::rotate(networks_.begin(), found, found + 1);
  return *networks_.front().network;
}

void Model::check_shape(const Batch& given) const {
  check(given.size > 0, "a batch has samples");
  check(given.inputs.size() == given.size * elements(plan_.in), "a batch has the model's shape");
}

std::vector<DenseWeights> Model::dense_weights() const {
  std::vector<DenseWeights> weights;
  for (const LayerPlan& layer : plan_.layers) {
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
  gv::initialise(plan_, initial_deviation_, layout(), parameters, rng);
}

Score Model::gradient(std::span<const float> parameters, const Batch& batch,
                      std::span<float> gradient, Rng& rng, const ReadyRange& ready,
                      std::span<const std::size_t> factored) {
  check_shape(batch);
  Network<float>& network = network_for(batch.size);
  const std::span<const float> outputs = network.forward(parameters, batch.inputs, true, rng);
  d_outputs_.resize(outputs.size());
  const Score score = score_outputs(loss_, outputs, batch, d_outputs_);
  network.give_factors(factored);
  network.backward(parameters, d_outputs_, gradient, ready);
  return score;
}

std::span<const float> Model::predict(std::span<const float> parameters, const Batch& batch) {
  check_shape(batch);
  check(batch.size <= batch_, "a batch to evaluate fits the model");
  std::span<const float> inputs = batch.inputs;
  if (batch.size < batch_) {
    // The last, smaller batch of a data set is padded with zeros: it is not worth a network of its
    // own.
    padded_.assign(batch_ * elements(plan_.in), 0.0f);
    std::ranges::copy(batch.inputs, padded_.begin());
    inputs = padded_;
  }
  Rng unused(0);
  const std::span<const float> outputs =
      network_for(batch_).forward(parameters, inputs, false, unused);
  return outputs.first(batch.size * plan_.outputs);
}

Score Model::evaluate(std::span<const float> parameters, const Batch& batch) {
  return score_outputs(loss_, predict(parameters, batch), batch, {});
}

double perplexity(const Score& score) { return std::exp(score.mean_loss()); }

double bits_per_prediction(const Score& score) { return score.mean_loss() / std::numbers::ln2; }

}  // namespace gv
