// Max and average pooling over square windows.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/range.hpp"
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
    each_window(batch, [&](std::size_t place, const Window& window) {
      T sum = 0;
      std::size_t best = window.corner;
      for (std::size_t y = 0; y < window.rows; ++y) {
        for (std::size_t x = 0; x < window.columns; ++x) {
          const std::size_t at = window.corner + y * plan_.in[2] + x;
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
    each_window(batch, [&](std::size_t place, const Window& window) {
      if (max) {
        d_in[winners_[place]] += d_out[place];
        return;
      }
      for (std::size_t y = 0; y < window.rows; ++y) {
        for (std::size_t x = 0; x < window.columns; ++x) {
          d_in[window.corner + y * plan_.in[2] + x] += d_out[place] / area();
        }
      }
    });
  }

 private:
  T area() const { return static_cast<T>(plan_.spec.kernel * plan_.spec.kernel); }

  /// The part of a window that is not padding.
  struct Window {
    std::size_t corner = 0;  ///< Input index of the window's first element.
    std::size_t rows = 0;
    std::size_t columns = 0;
  };

  /// The rows or columns of an output's window that lie inside an input with `size` of them.
  Range span_of(std::size_t output, std::size_t size) const {
    const std::size_t padding = plan_.spec.padding;
    const std::size_t begin = output * plan_.spec.stride;  // Counted from the start of the padding.
    return {std::max(begin, padding) - padding,
            std::min(begin + plan_.spec.kernel, size + padding) - padding};
  }

  /// Calls visit(output index, window) for every output of the batch.
  template <class Visit>
  void each_window(std::size_t batch, Visit visit) const {
    std::size_t place = 0;
    for (std::size_t plane = 0; plane < batch * plan_.in[0]; ++plane) {
      const std::size_t begin = plane * plan_.in[1] * plan_.in[2];
      for (std::size_t y = 0; y < plan_.out[1]; ++y) {
        const Range rows = span_of(y, plan_.in[1]);
        for (std::size_t x = 0; x < plan_.out[2]; ++x) {
          const Range columns = span_of(x, plan_.in[2]);
          visit(place++, Window{.corner = begin + rows.begin * plan_.in[2] + columns.begin,
                                .rows = rows.size(),
                                .columns = columns.size()});
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
