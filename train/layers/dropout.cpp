// Inverted dropout: kept values are scaled up in training, so inference needs no scaling.
#include <cstddef>
#include <memory>
#include <vector>

#include "train/layers/layer.hpp"

namespace gv {
namespace {

/// Acts on whole samples, or on some rows of every image. In both cases it draws a number for every
/// value of the whole samples, in order. So a strip drops the same values as the whole image would,
/// and later layers draw the same numbers.
template <class T>
class Dropout final : public Layer<T> {
 public:
  explicit Dropout(const LayerPlan& plan) : rate_(plan.spec.rate), width_(elements(plan.in)) {}
  Dropout(const LayerPlan& plan, const Range& rows)
      : rate_(plan.spec.rate),
        planes_(plan.in[0]),
        height_(plan.in[1]),
        width_(plan.in[2]),
        rows_(rows) {}

  void forward(const T*, const T* in, T* out, std::size_t batch, bool training, Rng& rng) override {
    factors_.assign(batch * planes_ * rows_.size() * width_, T(1));
    if (training) draw(batch, rng);
    for (std::size_t i = 0; i < factors_.size(); ++i) out[i] = in[i] * factors_[i];
  }

  void backward_input(const T*, const T*, const T*, const T* d_out, T* d_in, std::size_t) override {
    if (d_in == nullptr) return;
    for (std::size_t i = 0; i < factors_.size(); ++i) d_in[i] = d_out[i] * factors_[i];
  }

 private:
  void draw(std::size_t batch, Rng& rng) {
    const T kept = static_cast<T>(1 / (1 - rate_));
    auto next = factors_.begin();
    for (std::size_t plane = 0; plane < batch * planes_; ++plane) {
      for (std::size_t row = 0; row < height_; ++row) {
        if (row < rows_.begin || row >= rows_.end) {
          for (std::size_t i = 0; i < width_; ++i) rng.chance(rate_);
          continue;
        }
        for (std::size_t i = 0; i < width_; ++i) *next++ = rng.chance(rate_) ? T(0) : kept;
      }
    }
  }

  double rate_;
  std::size_t planes_ = 1;  ///< Planes of a sample; 1 if the layer acts on whole samples, each of
                            ///< which counts as one row.
  std::size_t height_ = 1;
  std::size_t width_;
  Range rows_{0, 1};  ///< The rows of each plane that this layer has.
  std::vector<T> factors_;
};

}  // namespace

template <class T>
std::unique_ptr<Layer<T>> make_dropout_of_rows(const LayerPlan& plan, const Range& rows) {
  return std::make_unique<Dropout<T>>(plan, rows);
}

template std::unique_ptr<Layer<float>> make_dropout_of_rows(const LayerPlan&, const Range&);
template std::unique_ptr<Layer<double>> make_dropout_of_rows(const LayerPlan&, const Range&);

LayerFamily dropout_layers() { return {make_one<Dropout, float>, make_one<Dropout, double>}; }

}  // namespace gv
