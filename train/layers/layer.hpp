// One layer in plain memory order, in float for training without oneDNN and in double for gradient
// checks.
#pragma once

#include <cstddef>
#include <memory>

#include "consensus/base/rng.hpp"
#include "train/layers/plan.hpp"

namespace gv {

/// Forward and backward of one layer. Arrays are row-major (batch, C, H, W) with the plan's shapes;
/// `parameters` and `d_parameters` are the model's whole flat vectors. A layer keeps what backward
/// needs of the last forward, so the calls alternate. T is float or double.
template <class T>
class Layer {
 public:
  virtual ~Layer() = default;

  /// Computes `out` from `in` for `batch` samples. In training, dropout draws from `rng`.
  virtual void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool training,
                       Rng& rng) = 0;

  /// From `d_out` computes `d_in` (null: not wanted) and overwrites the layer's part of
  /// `d_parameters`. `in` and `out` are those of the last forward.
  virtual void backward(const T* parameters, const T* in, const T* out, const T* d_out, T* d_in,
                        T* d_parameters, std::size_t batch) = 0;
};

/// The layer of a plan.
template <class T>
std::unique_ptr<Layer<T>> make_layer(const LayerPlan& plan);

// One maker for each family; make_layer() picks.
template <class T>
std::unique_ptr<Layer<T>> make_dense(const LayerPlan& plan);
template <class T>
std::unique_ptr<Layer<T>> make_convolution(const LayerPlan& plan);
template <class T>
std::unique_ptr<Layer<T>> make_pool(const LayerPlan& plan);
template <class T>
std::unique_ptr<Layer<T>> make_activation(const LayerPlan& plan);
template <class T>
std::unique_ptr<Layer<T>> make_dropout(const LayerPlan& plan);
template <class T>
std::unique_ptr<Layer<T>> make_normalisation(const LayerPlan& plan);

}  // namespace gv
