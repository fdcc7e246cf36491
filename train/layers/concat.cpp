// Several layers with the same input, whose outputs are joined along the channels (Szegedy 2015).
#include <algorithm>
#include <vector>

#include "train/layers/branch.hpp"
#include "train/layers/layer.hpp"

namespace gv {
namespace {

template <class T>
class Concat final : public Layer<T> {
 public:
  explicit Concat(const LayerPlan& plan) : in_size_(elements(plan.in)), size_(elements(plan.out)) {
    for (const LayerPlan& layer : plan.layers) {
      parts_.push_back({.inside = Branch<T>({layer}), .width = elements(layer.out)});
    }
  }

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool training,
               Rng& rng) override {
    T* place = out;
    for (Part& part : parts_) {
      const T* own = part.inside.forward(parameters, in, batch, training, rng);
      for (std::size_t n = 0; n < batch; ++n) {
        std::copy_n(own + n * part.width, part.width, place + n * size_);
      }
      place += part.width;
    }
  }

  void backward_input(const T* parameters, const T* in, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    if (d_in != nullptr) std::fill_n(d_in, batch * in_size_, T(0));
    const T* place = d_out;
    for (Part& part : parts_) {
      d_part_.resize(batch * part.width);
      for (std::size_t n = 0; n < batch; ++n) {
        std::copy_n(place + n * size_, part.width, d_part_.data() + n * part.width);
      }
      place += part.width;
      d_by_part_.resize(d_in != nullptr ? batch * in_size_ : 0);
      part.inside.backward_input(parameters, in, d_part_.data(),
                                 d_in != nullptr ? d_by_part_.data() : nullptr, batch,
                                 d_part_.size());
      for (std::size_t i = 0; i < d_by_part_.size(); ++i) d_in[i] += d_by_part_[i];
    }
  }

  void backward_weight(const T* parameters, const T* in, const T*, const T*, T* d_parameters,
                       std::size_t batch) override {
    for (Part& part : parts_) part.inside.backward_weight(parameters, in, d_parameters, batch);
  }

 private:
  /// One of the layers, and the number of its outputs.
  struct Part {
    Branch<T> inside;
    std::size_t width = 0;
  };

  std::size_t in_size_;
  std::size_t size_;
  std::vector<Part> parts_;
  std::vector<T> d_part_;     ///< The gradient of one layer's outputs.
  std::vector<T> d_by_part_;  ///< The gradient of the input through one layer.
};

}  // namespace

LayerFamily concat_layers() { return {make_one<Concat, float>, make_one<Concat, double>}; }

}  // namespace gv
