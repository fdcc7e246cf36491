// All layers of a model for one batch size: what Model runs, in two implementations.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "consensus/base/rng.hpp"
#include "train/layers/plan.hpp"

namespace gv {

/// Forward and backward through a whole model, always for the batch size it was made for. Holds
/// activations and scratch, never parameters. T is float or double.
template <class T>
class Network {
 public:
  virtual ~Network() = default;

  /// `inputs` is (batch, C, H, W) and stays valid until backward; the result is (batch, outputs)
  /// and stays valid until the next call.
  virtual std::span<const T> forward(std::span<const T> parameters, std::span<const T> inputs,
                                     bool training, Rng& rng) = 0;

  /// Overwrites `gradient` (one flat vector) from the gradient of the loss by the outputs. `ready`,
  /// if there is one, hears of every layer's part when that layer is done.
  virtual void backward(std::span<const T> parameters, std::span<const T> d_outputs,
                        std::span<T> gradient, const ReadyRange& ready = {}) = 0;
};

/// Plain memory order, Eigen's products: the fallback in float, the yardstick in double.
template <class T>
std::unique_ptr<Network<T>> make_plain_network(const ModelPlan& plan, std::size_t batch);

/// oneDNN's dense layers, convolutions and pools in its blocked layouts, the plain layers for the
/// rest. Null in a build without oneDNN.
std::unique_ptr<Network<float>> make_onednn_network(const ModelPlan& plan, std::size_t batch);

}  // namespace gv
