// Inverted dropout: kept values are scaled up in training, so inference needs no scaling.
#include <algorithm>
#include <vector>

#include "train/layers/layer.hpp"

namespace gv {
namespace {

template <class T>
class Dropout final : public Layer<T> {
 public:
  explicit Dropout(const LayerPlan& plan) : rate_(plan.spec.rate), size_(elements(plan.in)) {}

  void forward(const T*, const T* in, T* out, std::size_t batch, bool training, Rng& rng) override {
    factors_.assign(batch * size_, T(1));
    if (training) {
      const T kept = static_cast<T>(1 / (1 - rate_));
      for (T& factor : factors_) factor = rng.chance(rate_) ? T(0) : kept;
    }
    for (std::size_t i = 0; i < factors_.size(); ++i) out[i] = in[i] * factors_[i];
  }

  void backward_input(const T*, const T*, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    if (d_in == nullptr) return;
    for (std::size_t i = 0; i < batch * size_; ++i) d_in[i] = d_out[i] * factors_[i];
  }

 private:
  double rate_;
  std::size_t size_;
  std::vector<T> factors_;
};

}  // namespace

LayerFamily dropout_layers() { return {make_one<Dropout, float>, make_one<Dropout, double>}; }

}  // namespace gv
