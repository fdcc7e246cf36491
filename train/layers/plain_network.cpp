// Layer after layer in plain memory order.
#include <algorithm>
#include <utility>
#include <vector>

#include "train/layers/layer.hpp"
#include "train/layers/network.hpp"

namespace gv {
namespace {

template <class T>
class PlainNetwork final : public Network<T> {
 public:
  PlainNetwork(const ModelPlan& plan, std::size_t batch) : batch_(batch) {
    std::size_t widest = 0;
    for (const LayerPlan& layer : plan.layers) {
      if (first_trained_ == layers_.size() && !layer.has_parameters) ++first_trained_;
      layers_.push_back(make_layer<T>(layer));
      begins_.push_back(layer.weight);
      outputs_.emplace_back(batch * elements(layer.out));
      widest = std::max({widest, elements(layer.in), elements(layer.out)});
    }
    gradient_.resize(batch * widest);
    previous_.resize(batch * widest);
  }

  std::span<const T> forward(std::span<const T> parameters, std::span<const T> inputs,
                             bool training, Rng& rng) override {
    inputs_ = inputs;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      layers_[i]->forward(parameters.data(), input(i), outputs_[i].data(), batch_, training, rng);
    }
    return outputs_.back();
  }

  void backward(std::span<const T> parameters, std::span<const T> d_outputs, std::span<T> gradient,
                const ReadyRange& ready) override {
    std::size_t done = gradient.size();
    std::copy(d_outputs.begin(), d_outputs.end(), gradient_.begin());
    for (std::size_t i = layers_.size(); i-- > first_trained_;) {
      T* d_in = i == first_trained_ ? nullptr : previous_.data();
      layers_[i]->backward(parameters.data(), input(i), outputs_[i].data(), gradient_.data(), d_in,
                           gradient.data(), batch_);
      gradient_.swap(previous_);
      const std::size_t end = std::exchange(done, begins_[i]);
      if (ready && done < end) ready(done, end);
    }
  }

 private:
  const T* input(std::size_t i) const { return i == 0 ? inputs_.data() : outputs_[i - 1].data(); }

  std::size_t batch_;
  std::size_t first_trained_ = 0;  ///< Layers before it need no gradient.
  std::vector<std::unique_ptr<Layer<T>>> layers_;
  std::vector<std::size_t> begins_;  ///< Where in the flat vector each layer's parameters begin.
  std::vector<std::vector<T>> outputs_;
  std::vector<T> gradient_;
  std::vector<T> previous_;
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
