// A network that runs one layer after the other in plain memory order.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "train/layers/compute_scope.hpp"
#include "train/layers/layer.hpp"
#include "train/layers/network.hpp"

namespace gv {
namespace {

template <class T>
class PlainNetwork final : public Network<T> {
 public:
  PlainNetwork(const ModelPlan& plan, std::size_t batch) : batch_(batch) {
    gradients_.emplace_back(batch * elements(plan.in));
    for (const LayerPlan& layer : plan.layers) {
      if (first_trained_ == layers_.size() && !layer.has_parameters()) ++first_trained_;
      layers_.push_back(make_layer<T>(layer));
      begins_.push_back(layer.begin);
      const bool is_dense = layer.spec.kind == LayerKind::dense;
      weights_.push_back(is_dense ? std::optional(layer.weight) : std::nullopt);
      outputs_.emplace_back(batch * elements(layer.out));
      gradients_.emplace_back(batch * elements(layer.out));
    }
    gives_factors_.assign(layers_.size(), false);
  }

  void give_factors(std::span<const std::size_t> weights) override {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      gives_factors_[i] = weights_[i] && std::ranges::binary_search(weights, *weights_[i]);
    }
  }

  std::span<const T> forward(std::span<const T> parameters, std::span<const T> inputs,
                             bool training, Rng& rng) override {
    const ComputeScope scope;
    inputs_ = inputs;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      layers_[i]->forward(parameters.data(), input(i), outputs_[i].data(), batch_, training, rng);
    }
    return outputs_.back();
  }

  std::span<const T> backward(std::span<const T> parameters, std::span<const T> d_outputs,
                              std::span<T> gradient, const ReadyRange& ready,
                              bool want_d_inputs) override {
    const ComputeScope scope;
    std::size_t done = gradient.size();
    std::ranges::copy(d_outputs, gradients_.back().begin());
    for (std::size_t i = layers_.size(); i-- > first_needed(want_d_inputs);) {
      input_part(i, parameters, want_d_inputs);
      weight_part(i, parameters, gradient, ready, done);
    }
    return d_inputs(want_d_inputs);
  }

  std::span<const T> backward_input(std::span<const T> parameters, std::span<const T> d_outputs,
                                    bool want_d_inputs) override {
    const ComputeScope scope;
    std::ranges::copy(d_outputs, gradients_.back().begin());
    for (std::size_t i = layers_.size(); i-- > first_needed(want_d_inputs);) {
      input_part(i, parameters, want_d_inputs);
    }
    return d_inputs(want_d_inputs);
  }

  void backward_weight(std::span<const T> parameters, std::span<T> gradient,
                       const ReadyRange& ready) override {
    const ComputeScope scope;
    std::size_t done = gradient.size();
    for (std::size_t i = layers_.size(); i-- > first_trained_;) {
      weight_part(i, parameters, gradient, ready, done);
    }
  }

 private:
  const T* input(std::size_t i) const { return i == 0 ? inputs_.data() : outputs_[i - 1].data(); }
  std::size_t first_needed(bool want_d_inputs) const { return want_d_inputs ? 0 : first_trained_; }
  std::span<const T> d_inputs(bool wanted) const {
    return wanted ? std::span<const T>(gradients_.front()) : std::span<const T>();
  }

  void input_part(std::size_t i, std::span<const T> parameters, bool want_d_inputs) {
    T* d_in = i == first_trained_ && !want_d_inputs ? nullptr : gradients_[i].data();
    layers_[i]->backward_input(parameters.data(), input(i), outputs_[i].data(),
                               gradients_[i + 1].data(), d_in, batch_);
  }

  void weight_part(std::size_t i, std::span<const T> parameters, std::span<T> gradient,
                   const ReadyRange& ready, std::size_t& done) {
    if (gives_factors_[i]) {
      layers_[i]->weight_factors(input(i), gradients_[i + 1].data(), gradient.data(), batch_);
    } else {
      layers_[i]->backward_weight(parameters.data(), input(i), outputs_[i].data(),
                                  gradients_[i + 1].data(), gradient.data(), batch_);
    }
    const std::size_t end = std::exchange(done, begins_[i]);
    if (ready && done < end) ready(done, end);
  }

  std::size_t batch_;
  std::size_t first_trained_ = 0;  ///< Index of the first layer that has parameters.
  std::vector<std::unique_ptr<Layer<T>>> layers_;
  std::vector<std::size_t> begins_;  ///< Where each layer's parameters begin in the flat vector.
  std::vector<std::optional<std::size_t>> weights_;  ///< Where each dense layer's weights begin.
  std::vector<bool> gives_factors_;
  std::vector<std::vector<T>> outputs_;
  /// The gradient of each layer's inputs. The last element is the gradient of the outputs.
  std::vector<std::vector<T>> gradients_;
  std::span<const T> inputs_;
};

}  // namespace

template <class T>
std::unique_ptr<Network<T>> make_plain_network(const ModelPlan& plan, std::size_t batch) {
  return std::make_unique<PlainNetwork<T>>(plan, batch);
}

template std::unique_ptr<Network<float>> make_plain_network(const ModelPlan&, std::size_t);
template std::unique_ptr<Network<double>> make_plain_network(const ModelPlan&, std::size_t);

}  // namespace gv
