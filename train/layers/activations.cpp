// Element-wise activations, and flatten, which only changes the shape.
#include <cmath>

#include "train/layers/functions.hpp"
#include "train/layers/layer.hpp"

namespace gv {
namespace {

/// A layer that applies one function to each value: y = value(x). Its derivative is slope(x, y).
template <class T, class Function>
class Elementwise final : public Layer<T> {
 public:
  explicit Elementwise(const LayerPlan& plan) : size_(elements(plan.in)) {}

  void forward(const T*, const T* in, T* out, std::size_t batch, bool, Rng&) override {
    for (std::size_t i = 0; i < batch * size_; ++i) out[i] = Function::value(in[i]);
  }

  void backward_input(const T*, const T* in, const T* out, const T* d_out, T* d_in,
                      std::size_t batch) override {
    if (d_in == nullptr) return;
    for (std::size_t i = 0; i < batch * size_; ++i) {
      d_in[i] = d_out[i] * Function::slope(in[i], out[i]);
    }
  }

 private:
  std::size_t size_;
};

struct Identity {
  template <class T>
  static T value(T x) {
    return x;
  }
  template <class T>
  static T slope(T, T) {
    return 1;
  }
};

struct Relu {
  template <class T>
  static T value(T x) {
    return x > 0 ? x : 0;
  }
  template <class T>
  static T slope(T x, T) {
    return x > 0 ? 1 : 0;
  }
};

struct Tanh {
  template <class T>
  static T value(T x) {
    return std::tanh(x);
  }
  template <class T>
  static T slope(T, T y) {
    return 1 - y * y;
  }
};

template <class T>
class Gelu final : public Layer<T> {
 public:
  explicit Gelu(const LayerPlan& plan) : size_(elements(plan.in)) {}

  void forward(const T*, const T* in, T* out, std::size_t batch, bool, Rng&) override {
    gelu(in, out, batch * size_);
  }

  void backward_input(const T*, const T* in, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    if (d_in != nullptr) gelu_backward(in, d_out, d_in, batch * size_);
  }

 private:
  std::size_t size_;
};

template <class T>
std::unique_ptr<Layer<T>> make(const LayerPlan& plan) {
  switch (plan.spec.kind) {
    case LayerKind::relu:
      return std::make_unique<Elementwise<T, Relu>>(plan);
    case LayerKind::tanh:
      return std::make_unique<Elementwise<T, Tanh>>(plan);
    case LayerKind::gelu:
      return std::make_unique<Gelu<T>>(plan);
    default:
      return std::make_unique<Elementwise<T, Identity>>(plan);
  }
}

}  // namespace

LayerFamily activation_layers() { return {make<float>, make<double>}; }

}  // namespace gv
