// All layers of a model for one batch size, in two implementations; Model runs one of them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/rng.hpp"
#include "train/layers/plan.hpp"

namespace gv {

/// Forward and backward through a whole model or a slice of one, always for the batch size it was
/// made for. Holds activations and scratch space, never parameters. One network is one batch in
/// flight. One thread may use several networks of the same plan in turns; they do not disturb each
/// other. T is float or double.
///
/// After forward comes either backward(), or backward_input() and later, if at all,
/// backward_weight(). Both ways give the same bits, and both need the parameter values that forward
/// saw.
template <class T>
class Network {
 public:
  virtual ~Network() = default;

  /// `inputs` is (batch, C, H, W) and stays valid until backward is over; the result is (batch,
  /// outputs) and stays valid until the next call.
  virtual std::span<const T> forward(std::span<const T> parameters, std::span<const T> inputs,
                                     bool training, Rng& rng) = 0;

  /// From now on the places of these weights in a gradient get the factors of their gradient
  /// dW = dy^T x instead of dW: dy (rows, outputs) and behind it x (rows, inputs), with the rows of
  /// the whole batch, for which there must be room. The rest of the place is left unchanged.
  /// `weights` are offsets of dense layers' weights as DenseWeights has them, ascending.
  virtual void give_factors(std::span<const std::size_t> weights) = 0;

  /// Overwrites `gradient` (one flat vector) from the gradient of the loss by the outputs. `ready`,
  /// if given, is told of every layer's part when that layer is done. With `want_d_inputs` the
  /// result is the gradient by the inputs (batch, C, H, W), valid until the next call; else empty.
  virtual std::span<const T> backward(std::span<const T> parameters, std::span<const T> d_outputs,
                                      std::span<T> gradient, const ReadyRange& ready = {},
                                      bool want_d_inputs = false) = 0;

  /// The first half of backward(): the gradient by the inputs, if wanted, and for each layer the
  /// gradient that its weights' gradient needs. `d_outputs` is not needed after the call; the
  /// result stays valid until the next forward.
  virtual std::span<const T> backward_input(std::span<const T> parameters,
                                            std::span<const T> d_outputs, bool want_d_inputs) = 0;

  /// The second half: overwrites `gradient` and calls `ready` as backward() does.
  virtual void backward_weight(std::span<const T> parameters, std::span<T> gradient,
                               const ReadyRange& ready = {}) = 0;
};

/// Plain memory order and Eigen's products: the fallback in float, the reference in double.
template <class T>
std::unique_ptr<Network<T>> make_plain_network(const ModelPlan& plan, std::size_t batch);

/// oneDNN's dense layers, convolutions and pools in its blocked layouts, the plain layers for the
/// rest. Null in a build without oneDNN.
std::unique_ptr<Network<float>> make_onednn_network(const ModelPlan& plan, std::size_t batch);

}  // namespace gv
