// Random features, with which a linear model is a kernel machine.
#include <Eigen/Core>
#include <cmath>

#include "train/layers/layer.hpp"

namespace gv {
namespace {

/// y = sqrt(2 / units) (cos Wx, sin Wx), where the units / 2 rows of W are drawn with a variance of
/// 2 gamma. Then y(x) y(z) approximates exp(-gamma |x - z|^2), the kernel of radial basis
/// functions, with an error of about 1 / sqrt(units). For x = z it is exactly 1 (Rahimi and Recht
/// 2007). W is not a parameter: it follows from the shape, so all peers have the same W and never
/// send it.
template <class T>
class KernelFeatures final : public Layer<T> {
 public:
  explicit KernelFeatures(const LayerPlan& plan)
      : half_(static_cast<Eigen::Index>(plan.spec.units / 2)),
        width_(static_cast<Eigen::Index>(elements(plan.in))),
        frequencies_(half_, width_),
        scale_(static_cast<T>(std::sqrt(1.0 / static_cast<double>(half_)))) {
    Rng rng = Rng(plan.spec.units).fork("kernel features");
    const double deviation = std::sqrt(2 * plan.spec.gamma);
    for (Eigen::Index i = 0; i < frequencies_.size(); ++i) {
      frequencies_.data()[i] = static_cast<T>(deviation * rng.normal());
    }
  }

  void forward(const T*, const T* in, T* out, std::size_t batch, bool, Rng&) override {
    const auto rows = static_cast<Eigen::Index>(batch);
    const Eigen::Map<const Matrix> x(in, rows, width_);  // (B, I)
    Eigen::Map<Matrix> y(out, rows, 2 * half_);          // (B, 2 F)
    angles_ = x * frequencies_.transpose();
    y.leftCols(half_) = scale_ * angles_.array().cos();
    y.rightCols(half_) = scale_ * angles_.array().sin();
  }

  /// Computes the gradient from the outputs: the derivative of a cosine is minus the sine beside
  /// it, and that of a sine is the cosine.
  void backward_input(const T*, const T*, const T* out, const T* d_out, T* d_in,
                      std::size_t batch) override {
    if (d_in == nullptr) return;
    const auto rows = static_cast<Eigen::Index>(batch);
    const Eigen::Map<const Matrix> y(out, rows, 2 * half_);
    const Eigen::Map<const Matrix> dy(d_out, rows, 2 * half_);
    angles_ = dy.rightCols(half_).cwiseProduct(y.leftCols(half_)) -
              dy.leftCols(half_).cwiseProduct(y.rightCols(half_));
    Eigen::Map<Matrix>(d_in, rows, width_) = angles_ * frequencies_;
  }

 private:
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  Eigen::Index half_;
  Eigen::Index width_;
  Matrix frequencies_;  ///< (F, I)
  T scale_;
  Matrix angles_;  ///< (B, F), and later the gradient of the angles.
};

}  // namespace

LayerFamily kernel_feature_layers() {
  return {make_one<KernelFeatures, float>, make_one<KernelFeatures, double>};
}

}  // namespace gv
