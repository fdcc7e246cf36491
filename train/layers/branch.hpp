// A sequence of layers with their activations, for layers that contain other layers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "train/layers/layer.hpp"

namespace gv {

/// A sequence of layers, each of which takes the output of the previous one. It has the same
/// functions as a layer, and they must be called in the same order. Without layers, its output is
/// its input.
template <class T>
class Branch {
 public:
  explicit Branch(const std::vector<LayerPlan>& layers) {
    for (const LayerPlan& layer : layers) {
      parts_.push_back({.layer = make_layer<T>(layer), .width = elements(layer.out)});
    }
  }

  bool is_empty() const { return parts_.empty(); }

  /// Returns the output, which is valid until the next call.
  const T* forward(const T* parameters, const T* in, std::size_t batch, bool training, Rng& rng) {
    const T* from = in;
    for (Part& part : parts_) {
      part.out.resize(batch * part.width);
      part.layer->forward(parameters, from, part.out.data(), batch, training, rng);
      from = part.out.data();
    }
    return from;
  }

  /// Computes `d_in`, which may be null, from `d_out`. `size` is the number of outputs in the whole
  /// batch.
  void backward_input(const T* parameters, const T* in, const T* d_out, T* d_in, std::size_t batch,
                      std::size_t size) {
    if (is_empty()) {
      if (d_in != nullptr) std::copy_n(d_out, size, d_in);
      return;
    }
    for (Part& part : parts_) part.d_out.resize(batch * part.width);
    std::copy_n(d_out, size, parts_.back().d_out.data());
    for (std::size_t i = parts_.size(); i-- > 0;) {
      T* d_from = i > 0 ? parts_[i - 1].d_out.data() : d_in;
      parts_[i].layer->backward_input(parameters, from(i, in), parts_[i].out.data(),
                                      parts_[i].d_out.data(), d_from, batch);
    }
  }

  void backward_weight(const T* parameters, const T* in, T* d_parameters, std::size_t batch) {
    for (std::size_t i = parts_.size(); i-- > 0;) {
      parts_[i].layer->backward_weight(parameters, from(i, in), parts_[i].out.data(),
                                       parts_[i].d_out.data(), d_parameters, batch);
    }
  }

 private:
  /// A layer, its output, and the gradient of its output.
  struct Part {
    std::unique_ptr<Layer<T>> layer;
    std::size_t width = 0;
    std::vector<T> out = {};
    std::vector<T> d_out = {};
  };

  const T* from(std::size_t i, const T* in) const { return i > 0 ? parts_[i - 1].out.data() : in; }

  std::vector<Part> parts_;
};

}  // namespace gv
