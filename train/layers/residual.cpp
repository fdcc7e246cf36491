// Residual layer: y = x + f(x), or a projection of x in place of x (He 2016).
#include <vector>

#include "train/layers/branch.hpp"
#include "train/layers/layer.hpp"

namespace gv {
namespace {

template <class T>
class Residual final : public Layer<T> {
 public:
  explicit Residual(const LayerPlan& plan)
      : in_size_(elements(plan.in)),
        size_(elements(plan.out)),
        inside_(plan.layers),
        shortcut_(plan.shortcut) {}

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool training,
               Rng& rng) override {
    const T* inside = inside_.forward(parameters, in, batch, training, rng);
    const T* beside = shortcut_.forward(parameters, in, batch, training, rng);
    for (std::size_t i = 0; i < batch * size_; ++i) out[i] = beside[i] + inside[i];
  }

  void backward_input(const T* parameters, const T* in, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    inside_.backward_input(parameters, in, d_out, d_in, batch, batch * size_);
    T* d_beside = nullptr;
    if (d_in != nullptr) {
      d_beside_.resize(batch * in_size_);
      d_beside = d_beside_.data();
    }
    shortcut_.backward_input(parameters, in, d_out, d_beside, batch, batch * size_);
    if (d_in == nullptr) return;
    for (std::size_t i = 0; i < batch * in_size_; ++i) d_in[i] += d_beside[i];
  }

  void backward_weight(const T* parameters, const T* in, const T*, const T*, T* d_parameters,
                       std::size_t batch) override {
    shortcut_.backward_weight(parameters, in, d_parameters, batch);
    inside_.backward_weight(parameters, in, d_parameters, batch);
  }

 private:
  std::size_t in_size_;
  std::size_t size_;
  Branch<T> inside_;
  Branch<T> shortcut_;
  std::vector<T> d_beside_;  ///< The gradient of the input through the shortcut.
};

}  // namespace

LayerFamily residual_layers() { return {make_one<Residual, float>, make_one<Residual, double>}; }

}  // namespace gv
