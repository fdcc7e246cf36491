// Two-dimensional convolutions as matrix products of unrolled windows (im2col).
#include <Eigen/Core>
#include <algorithm>
#include <vector>

#include "train/layers/layer.hpp"

namespace gv {
namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class T>
class Convolution final : public Layer<T> {
 public:
  explicit Convolution(const LayerPlan& plan)
      : plan_(plan),
        window_(plan.in[0] * plan.spec.kernel * plan.spec.kernel),
        places_(plan.out[1] * plan.out[2]),
        columns_(window_ * places_),
        d_columns_(window_ * places_) {}

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool, Rng&) override {
    const Eigen::Map<const Matrix<T>> w(parameters + plan_.weight, units(),
                                        window());                                  // (O, C*k*k)
    const Eigen::Map<const Eigen::VectorX<T>> b(parameters + plan_.bias, units());  // (O)
    const Eigen::Map<const Matrix<T>> columns(columns_.data(), window(), places());
    for (std::size_t n = 0; n < batch; ++n) {
      unroll(in + n * elements(plan_.in));
      Eigen::Map<Matrix<T>> y(out + n * elements(plan_.out), units(), places());
      y.noalias() = w * columns;
      y.colwise() += b;
    }
  }

  void backward_input(const T* parameters, const T*, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    if (d_in == nullptr) return;
    const Eigen::Map<const Matrix<T>> w(parameters + plan_.weight, units(), window());
    Eigen::Map<Matrix<T>> d_columns(d_columns_.data(), window(), places());
    for (std::size_t n = 0; n < batch; ++n) {
      const Eigen::Map<const Matrix<T>> dy(d_out + n * elements(plan_.out), units(), places());
      d_columns.noalias() = w.transpose() * dy;
      roll_up(d_in + n * elements(plan_.in));
    }
  }

  void backward_weight(const T*, const T* in, const T*, const T* d_out, T* d_parameters,
                       std::size_t batch) override {
    const Eigen::Map<const Matrix<T>> columns(columns_.data(), window(), places());
    Eigen::Map<Matrix<T>> dw(d_parameters + plan_.weight, units(), window());
    Eigen::Map<Eigen::VectorX<T>> db(d_parameters + plan_.bias, units());
    dw.setZero();
    db.setZero();
    for (std::size_t n = 0; n < batch; ++n) {
      const Eigen::Map<const Matrix<T>> dy(d_out + n * elements(plan_.out), units(), places());
      unroll(in + n * elements(plan_.in));
      dw.noalias() += dy * columns.transpose();
      db += dy.rowwise().sum();
    }
  }

 private:
  Eigen::Index units() const { return static_cast<Eigen::Index>(plan_.spec.units); }
  Eigen::Index window() const { return static_cast<Eigen::Index>(window_); }
  Eigen::Index places() const { return static_cast<Eigen::Index>(places_); }

  /// Calls visit(input index or -1 for padding, column index) for every element of every window.
  template <class Visit>
  void each_tap(Visit visit) const {
    const auto height = static_cast<std::ptrdiff_t>(plan_.in[1]);
    const auto width = static_cast<std::ptrdiff_t>(plan_.in[2]);
    const auto stride = static_cast<std::ptrdiff_t>(plan_.spec.stride);
    const auto padding = static_cast<std::ptrdiff_t>(plan_.spec.padding);
    const auto kernel = static_cast<std::ptrdiff_t>(plan_.spec.kernel);
    const auto channels = static_cast<std::ptrdiff_t>(plan_.in[0]);
    std::size_t column = 0;
    for (std::ptrdiff_t c = 0; c < channels; ++c) {
      for (std::ptrdiff_t ky = 0; ky < kernel; ++ky) {
        for (std::ptrdiff_t kx = 0; kx < kernel; ++kx) {
          for (std::ptrdiff_t y = ky - padding; y < ky - padding + rows() * stride; y += stride) {
            for (std::ptrdiff_t x = kx - padding; x < kx - padding + cols() * stride; x += stride) {
              const bool inside = y >= 0 && y < height && x >= 0 && x < width;
              visit(inside ? (c * height + y) * width + x : -1, column++);
            }
          }
        }
      }
    }
  }
  std::ptrdiff_t rows() const { return static_cast<std::ptrdiff_t>(plan_.out[1]); }
  std::ptrdiff_t cols() const { return static_cast<std::ptrdiff_t>(plan_.out[2]); }

  void unroll(const T* image) {
    each_tap([&](std::ptrdiff_t at, std::size_t column) {
      columns_[column] = at < 0 ? T(0) : image[at];
    });
  }

  void roll_up(T* image) const {
    std::fill_n(image, elements(plan_.in), T(0));
    each_tap([&](std::ptrdiff_t at, std::size_t column) {
      if (at >= 0) image[at] += d_columns_[column];
    });
  }

  LayerPlan plan_;
  std::size_t window_;      ///< Elements in one window: C * k * k.
  std::size_t places_;      ///< Number of windows in one sample: H' * W'.
  std::vector<T> columns_;  ///< The unrolled windows of one sample, (C*k*k, H'*W').
  std::vector<T> d_columns_;
};

}  // namespace

LayerFamily convolution_layers() {
  return {make_one<Convolution, float>, make_one<Convolution, double>};
}

}  // namespace gv
