// Max and average pooling over square windows without padding.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "train/layers/layer.hpp"

namespace gv {
namespace {

template <class T>
class Pool final : public Layer<T> {
 public:
  explicit Pool(const LayerPlan& plan) : plan_(plan) {}

  void forward(const T*, const T* in, T* out, std::size_t batch, bool, Rng&) override {
    const bool max = plan_.spec.kind == LayerKind::max_pool;
    if (max) winners_.resize(batch * elements(plan_.out));
    each_window(batch, [&](std::size_t place, std::size_t corner) {
      T sum = 0;
      std::size_t best = corner;
      for (std::size_t y = 0; y < plan_.spec.kernel; ++y) {
        for (std::size_t x = 0; x < plan_.spec.kernel; ++x) {
          const std::size_t at = corner + y * plan_.in[2] + x;
          sum += in[at];
          if (in[at] > in[best]) best = at;
        }
      }
      out[place] = max ? in[best] : sum / area();
      if (max) winners_[place] = best;
    });
  }

  void backward_input(const T*, const T*, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    if (d_in == nullptr) return;
    std::fill_n(d_in, batch * elements(plan_.in), T(0));
    const bool max = plan_.spec.kind == LayerKind::max_pool;
    each_window(batch, [&](std::size_t place, std::size_t corner) {
      if (max) {
        d_in[winners_[place]] += d_out[place];
        return;
      }
      for (std::size_t y = 0; y < plan_.spec.kernel; ++y) {
        for (std::size_t x = 0; x < plan_.spec.kernel; ++x) {
          d_in[corner + y * plan_.in[2] + x] += d_out[place] / area();
        }
      }
    });
  }

 private:
  T area() const { return static_cast<T>(plan_.spec.kernel * plan_.spec.kernel); }

  /// Calls visit(output index, input index of the window's first element).
  template <class Visit>
  void each_window(std::size_t batch, Visit visit) const {
    std::size_t place = 0;
    for (std::size_t plane = 0; plane < batch * plan_.in[0]; ++plane) {
      const std::size_t begin = plane * plan_.in[1] * plan_.in[2];
      for (std::size_t y = 0; y < plan_.out[1]; ++y) {
        for (std::size_t x = 0; x < plan_.out[2]; ++x) {
          visit(place++, begin + y * plan_.spec.stride * plan_.in[2] + x * plan_.spec.stride);
        }
      }
    }
  }

  LayerPlan plan_;
  std::vector<std::size_t> winners_;  ///< For each output, the input index of its maximum.
};

}  // namespace

LayerFamily pool_layers() { return {make_one<Pool, float>, make_one<Pool, double>}; }

}  // namespace gv
