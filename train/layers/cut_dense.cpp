// One member's part of a dense layer: the products with some rows or columns of the weights.
#include "train/layers/cut_dense.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "train/layers/product.hpp"

namespace gv {
namespace {

LayerPlan elementwise_plan(LayerKind kind, std::size_t width) {
  check(kind == LayerKind::relu || kind == LayerKind::tanh || kind == LayerKind::gelu,
        "an activation of each value alone stands in a pair");
  return {.spec = {.kind = kind}, .in = {width, 1, 1}, .out = {width, 1, 1}};
}

}  // namespace

template <class T>
CutDense<T>::CutDense(DenseCut cut, std::size_t inputs, std::size_t outputs, Range part)
    : cut_(cut), inputs_(inputs), outputs_(outputs), part_(part) {
  check(part.begin < part.end && part.end <= (cut == DenseCut::outputs ? outputs : inputs),
        "a part is a range of the layer's outputs or inputs");
}

template <class T>
void CutDense<T>::take_weights(std::span<const T> whole, std::span<T> part) const {
  check(whole.size() == inputs_ * outputs_ && part.size() == weights(), "weights have their sizes");
  const T* from = whole.data() + (cut_ == DenseCut::outputs ? part_.begin * inputs_ : part_.begin);
  for (std::size_t row = 0; row < out_width(); ++row) {
    std::copy_n(from + row * inputs_, in_width(), part.data() + row * in_width());
  }
}

template <class T>
void CutDense<T>::put_weights(std::span<const T> part, std::span<T> whole) const {
  check(whole.size() == inputs_ * outputs_ && part.size() == weights(), "weights have their sizes");
  T* to = whole.data() + (cut_ == DenseCut::outputs ? part_.begin * inputs_ : part_.begin);
  for (std::size_t row = 0; row < out_width(); ++row) {
    std::copy_n(part.data() + row * in_width(), in_width(), to + row * inputs_);
  }
}

template <class T>
void CutDense<T>::forward(const T* weights, const T* biases, const T* in, T* out,
                          std::size_t rows) const {
  multiply<T>({rows, out_width(), in_width()}, {in, in_width()}, {weights, in_width(), true}, out,
              out_width());
  if (cut_ == DenseCut::inputs) return;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < out_width(); ++i) out[row * out_width() + i] += biases[i];
  }
}

template <class T>
void CutDense<T>::add_biases(const T* biases, T* out, std::size_t rows) const {
  if (cut_ == DenseCut::outputs) return;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < outputs_; ++i) out[row * outputs_ + i] += biases[i];
  }
}

template <class T>
void CutDense<T>::backward_input(const T* weights, const T* d_out, T* d_in,
                                 std::size_t rows) const {
  multiply<T>({rows, in_width(), out_width()}, {d_out, out_width()}, {weights, in_width()}, d_in,
              in_width());
}

template <class T>
void CutDense<T>::backward_weight(const T* in, const T* d_out, T* d_weights, T* d_biases,
                                  std::size_t rows) const {
  multiply<T>({out_width(), in_width(), rows}, {d_out, out_width(), true}, {in, in_width()},
              d_weights, in_width());
  std::fill_n(d_biases, out_width(), T(0));
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < out_width(); ++i) d_biases[i] += d_out[row * out_width() + i];
  }
}

template <class T>
CutPair<T>::CutPair(std::size_t inputs, std::size_t hidden, std::size_t outputs,
                    LayerKind activation, Range part)
    : first_(DenseCut::outputs, inputs, hidden, part),
      second_(DenseCut::inputs, hidden, outputs, part),
      activation_(make_layer<T>(elementwise_plan(activation, part.size()))) {}

template <class T>
void CutPair<T>::forward(const Parameters<const T>& parameters, const T* in, T* out,
                         std::size_t rows) {
  before_.resize(rows * first_.out_width());
  after_.resize(before_.size());
  first_.forward(parameters.first_weights, parameters.first_biases, in, before_.data(), rows);
  Rng unused(0);
  activation_->forward(nullptr, before_.data(), after_.data(), rows, true, unused);
  second_.forward(parameters.second_weights, nullptr, after_.data(), out, rows);
}

template <class T>
void CutPair<T>::backward_input(const Parameters<const T>& parameters, const T* d_out, T* d_in,
                                std::size_t rows) {
  std::vector<T> d_after(after_.size());
  d_before_.resize(before_.size());
  second_.backward_input(parameters.second_weights, d_out, d_after.data(), rows);
  activation_->backward_input(nullptr, before_.data(), after_.data(), d_after.data(),
                              d_before_.data(), rows);
  if (d_in == nullptr) return;
  first_.backward_input(parameters.first_weights, d_before_.data(), d_in, rows);
}

template <class T>
void CutPair<T>::backward_weight(const T* in, const T* d_out, const Parameters<T>& gradient,
                                 std::size_t rows) const {
  first_.backward_weight(in, d_before_.data(), gradient.first_weights, gradient.first_biases, rows);
  second_.backward_weight(after_.data(), d_out, gradient.second_weights, gradient.second_biases,
                          rows);
}

template class CutDense<float>;
template class CutDense<double>;
template class CutPair<float>;
template class CutPair<double>;

}  // namespace gv
