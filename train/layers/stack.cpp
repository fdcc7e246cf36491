// Layers one after the other as one layer, so that a branch can have several of them.
#include <algorithm>

#include "train/layers/branch.hpp"
#include "train/layers/layer.hpp"

namespace gv {
namespace {

template <class T>
class Stack final : public Layer<T> {
 public:
  explicit Stack(const LayerPlan& plan) : size_(elements(plan.out)), inside_(plan.layers) {}

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool training,
               Rng& rng) override {
    std::copy_n(inside_.forward(parameters, in, batch, training, rng), batch * size_, out);
  }

  void backward_input(const T* parameters, const T* in, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    inside_.backward_input(parameters, in, d_out, d_in, batch, batch * size_);
  }

  void backward_weight(const T* parameters, const T* in, const T*, const T*, T* d_parameters,
                       std::size_t batch) override {
    inside_.backward_weight(parameters, in, d_parameters, batch);
  }

 private:
  std::size_t size_;
  Branch<T> inside_;
};

}  // namespace

LayerFamily stack_layers() { return {make_one<Stack, float>, make_one<Stack, double>}; }

}  // namespace gv
