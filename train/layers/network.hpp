// All layers of a model for one batch size, with two implementations. Model runs one of them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/rng.hpp"
#include "train/layers/plan.hpp"

namespace gv {

/// Forward and backward pass through a whole model or a slice of it, for one batch size. Holds
/// activations and scratch space, never parameters. A network serves one batch at a time. One
/// thread may alternate between several networks of the same plan; they do not affect each other. T
/// is float or double.
///
/// After forward(), call either backward(), or backward_input() and optionally backward_weight()
/// later. Both ways give the same bits, and both need the parameter values that forward() used.
template <class T>
class Network {
 public:
  virtual ~Network() = default;

  /// `inputs` is (batch, C, H, W) and must stay valid until the backward pass is over. The result
  /// is (batch, outputs) and stays valid until the next call.
  virtual std::span<const T> forward(std::span<const T> parameters, std::span<const T> inputs,
                                     bool training, Rng& rng) = 0;

  /// From now on, the gradient of these weights holds the two factors of dW = dy^T x instead of dW:
  /// dy (rows, outputs) followed by x (rows, inputs), with the rows of the whole batch. The factors
  /// must fit in the place of the weights; the rest of that place is not written. `weights` are the
  /// offsets of DenseWeights, ascending.
  virtual void give_factors(std::span<const std::size_t> weights) = 0;

  /// Overwrites `gradient` (one flat vector), given the gradient of the outputs. Calls `ready`, if
  /// given, for each layer's part as soon as that part is final. With `want_d_inputs`, returns the
  /// gradient of the inputs (batch, C, H, W), valid until the next call; otherwise an empty span.
  virtual std::span<const T> backward(std::span<const T> parameters, std::span<const T> d_outputs,
                                      std::span<T> gradient, const ReadyRange& ready = {},
                                      bool want_d_inputs = false) = 0;

  /// The first half of backward(). Computes the gradient of the inputs, if wanted, and prepares the
  /// gradient of each layer's weights. `d_outputs` is not needed after the call; the result stays
  /// valid until the next forward().
  virtual std::span<const T> backward_input(std::span<const T> parameters,
                                            std::span<const T> d_outputs, bool want_d_inputs) = 0;

  /// The second half of backward(). Overwrites `gradient` and calls `ready` for each layer's part.
  virtual void backward_weight(std::span<const T> parameters, std::span<T> gradient,
                               const ReadyRange& ready = {}) = 0;
};

/// A network in plain memory order with Eigen's products: the fallback in float, and the reference
/// in double.
template <class T>
std::unique_ptr<Network<T>> make_plain_network(const ModelPlan& plan, std::size_t batch);

/// The features of oneDNN that this build and this processor support.
struct OnednnAbilities {
  bool is_built_in = false;
  bool winograd = false;
  bool bf16 = false;  ///< True if there are instructions for products of bfloat16.
};
const OnednnAbilities& onednn_abilities();

/// A network with oneDNN's dense layers, convolutions and pools, and plain layers for the rest.
/// Null in a build without oneDNN.
std::unique_ptr<Network<float>> make_onednn_network(const ModelPlan& plan, std::size_t batch);

/// Makes the network with which models are trained and evaluated: oneDNN's, or a plain one in a
/// build without oneDNN. Only this function obeys the plan's `weights`, which may demand a ternary
/// network.
std::unique_ptr<Network<float>> make_network(const ModelPlan& plan, std::size_t batch);

}  // namespace gv
