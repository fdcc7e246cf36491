// A layer in plain memory order: in float for training where oneDNN does not compute it, in double
// for gradient checks.
#pragma once

#include <cstddef>
#include <memory>
#include <tuple>

#include "base/check.hpp"
#include "base/range.hpp"
#include "base/rng.hpp"
#include "train/layers/plan.hpp"

namespace gv {

/// Forward and backward pass of one layer. Arrays are row-major (batch, C, H, W) with the plan's
/// shapes; `parameters` and `d_parameters` are the model's whole flat vectors. A layer keeps the
/// results of the last forward() and backward_input() that later calls need. The order of calls is
/// forward, backward_input, backward_weight, with the same arrays; other layers may run in between.
/// T is float or double.
template <class T>
class Layer {
 public:
  virtual ~Layer() = default;

  /// Computes `out` from `in` for `batch` samples. In training, dropout draws from `rng`.
  virtual void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool training,
                       Rng& rng) = 0;

  /// Computes `d_in` from `d_out`. If `d_in` is null, the call only prepares backward_weight();
  /// most layers then do nothing. `in` and `out` must be those of the last forward().
  virtual void backward_input(const T* parameters, const T* in, const T* out, const T* d_out,
                              T* d_in, std::size_t batch) = 0;

  /// Overwrites the layer's part of `d_parameters`. Call it after backward_input(), with the same
  /// arguments.
  virtual void backward_weight(const T* /*parameters*/, const T* /*in*/, const T* /*out*/,
                               const T* /*d_out*/, T* /*d_parameters*/, std::size_t /*batch*/) {}

  /// Writes a dense layer's factors, in place of backward_weight(). See Network::give_factors().
  virtual void weight_factors(const T* /*in*/, const T* /*d_out*/, T* /*d_parameters*/,
                              std::size_t /*batch*/) {
    check(false, "dense layers have factors");
  }
};

/// Makes the layer of a plan. In double nothing is rounded to bfloat16.
template <class T>
std::unique_ptr<Layer<T>> make_layer(const LayerPlan& plan);

/// Makes the dense layer or convolution of a plan. The factors of its products are rounded to
/// bfloat16.
std::unique_ptr<Layer<float>> make_rounded_layer(const LayerPlan& plan);

/// Makes a dropout for some rows of every image. It drops the same values of these rows as a
/// dropout of whole images would.
template <class T>
std::unique_ptr<Layer<T>> make_dropout_of_rows(const LayerPlan& plan, const Range& rows);

template <class T>
using LayerMaker = std::unique_ptr<Layer<T>> (*)(const LayerPlan&);
/// Functions that make a family's layers in both precisions.
using LayerFamily = std::tuple<LayerMaker<float>, LayerMaker<double>>;

/// Makes a layer of a family that has only one class.
template <template <class> class Kind, class T>
std::unique_ptr<Layer<T>> make_one(const LayerPlan& plan) {
  return std::make_unique<Kind<T>>(plan);
}

// The families of layers, from which make_layer() picks.
LayerFamily dense_layers();
LayerFamily convolution_layers();
LayerFamily fft_convolution_layers();
LayerFamily pool_layers();
LayerFamily activation_layers();
LayerFamily dropout_layers();
LayerFamily normalisation_layers();
LayerFamily embedding_layers();
LayerFamily attention_layers();
LayerFamily lstm_layers();
LayerFamily residual_layers();
LayerFamily stack_layers();
LayerFamily concat_layers();
LayerFamily cluster_layers();
LayerFamily kernel_feature_layers();

}  // namespace gv
