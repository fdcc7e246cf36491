// Residual layer: y = x + f(x), where f is a list of layers (He 2016).
#include <algorithm>
#include <vector>

#include "train/layers/layer.hpp"

namespace gv {
namespace {

template <class T>
class Residual final : public Layer<T> {
 public:
  explicit Residual(const LayerPlan& plan) : size_(elements(plan.in)) {
    for (const LayerPlan& inner : plan.layers) {
      parts_.push_back({.layer = make_layer<T>(inner), .width = elements(inner.out)});
    }
  }

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool training,
               Rng& rng) override {
    const T* from = in;
    for (Part& part : parts_) {
      part.out.resize(batch * part.width);
      part.layer->forward(parameters, from, part.out.data(), batch, training, rng);
      from = part.out.data();
    }
    for (std::size_t i = 0; i < batch * size_; ++i) out[i] = in[i] + from[i];
  }

  void backward_input(const T* parameters, const T* in, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    for (Part& part : parts_) part.d_out.resize(batch * part.width);
    std::copy_n(d_out, batch * size_, parts_.back().d_out.data());
    for (std::size_t i = parts_.size(); i-- > 0;) {
      T* d_from = i > 0 ? parts_[i - 1].d_out.data() : d_in;
      parts_[i].layer->backward_input(parameters, from(i, in), parts_[i].out.data(),
                                      parts_[i].d_out.data(), d_from, batch);
    }
    if (d_in == nullptr) return;
    for (std::size_t i = 0; i < batch * size_; ++i) d_in[i] += d_out[i];
  }

  void backward_weight(const T* parameters, const T* in, const T*, const T*, T* d_parameters,
                       std::size_t batch) override {
    for (std::size_t i = parts_.size(); i-- > 0;) {
      parts_[i].layer->backward_weight(parameters, from(i, in), parts_[i].out.data(),
                                       parts_[i].d_out.data(), d_parameters, batch);
    }
  }

 private:
  /// A layer of f, its output, and the gradient of its output.
  struct Part {
    std::unique_ptr<Layer<T>> layer;
    std::size_t width = 0;
    std::vector<T> out = {};
    std::vector<T> d_out = {};
  };

  const T* from(std::size_t i, const T* in) const { return i > 0 ? parts_[i - 1].out.data() : in; }

  std::size_t size_;
  std::vector<Part> parts_;
};

}  // namespace

LayerFamily residual_layers() { return {make_one<Residual, float>, make_one<Residual, double>}; }

}  // namespace gv
