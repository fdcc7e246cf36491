// Dense layers: y = x W^T + b.
#include <Eigen/Core>
#include <algorithm>

#include "train/layers/layer.hpp"

namespace gv {
namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class T>
class Dense final : public Layer<T> {
 public:
  explicit Dense(const LayerPlan& plan)
      : plan_(plan),
        inputs_(static_cast<Eigen::Index>(elements(plan.in) / plan.rows)),
        outputs_(static_cast<Eigen::Index>(plan.spec.units)) {}

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool, Rng&) override {
    const auto rows = static_cast<Eigen::Index>(batch * plan_.rows);
    const Eigen::Map<const Matrix<T>> x(in, rows, inputs_);                             // (B, I)
    const Eigen::Map<const Matrix<T>> w(parameters + plan_.weight, outputs_, inputs_);  // (O, I)
    const Eigen::Map<const Eigen::RowVectorX<T>> b(parameters + plan_.bias, outputs_);  // (O)
    Eigen::Map<Matrix<T>> y(out, rows, outputs_);                                       // (B, O)
    y.noalias() = x * w.transpose();
    y.rowwise() += b;
  }

  void backward_input(const T* parameters, const T*, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    if (d_in == nullptr) return;
    const auto rows = static_cast<Eigen::Index>(batch * plan_.rows);
    const Eigen::Map<const Matrix<T>> w(parameters + plan_.weight, outputs_, inputs_);
    const Eigen::Map<const Matrix<T>> dy(d_out, rows, outputs_);
    Eigen::Map<Matrix<T>> dx(d_in, rows, inputs_);
    dx.noalias() = dy * w;
  }

  void backward_weight(const T*, const T* in, const T*, const T* d_out, T* d_parameters,
                       std::size_t batch) override {
    const auto rows = static_cast<Eigen::Index>(batch * plan_.rows);
    const Eigen::Map<const Matrix<T>> x(in, rows, inputs_);
    const Eigen::Map<const Matrix<T>> dy(d_out, rows, outputs_);
    Eigen::Map<Matrix<T>> dw(d_parameters + plan_.weight, outputs_, inputs_);
    Eigen::Map<Eigen::RowVectorX<T>> db(d_parameters + plan_.bias, outputs_);
    dw.noalias() = dy.transpose() * x;
    db = dy.colwise().sum();
  }

  void weight_factors(const T* in, const T* d_out, T* d_parameters, std::size_t batch) override {
    const auto rows = static_cast<Eigen::Index>(batch * plan_.rows);
    const Eigen::Map<const Matrix<T>> dy(d_out, rows, outputs_);
    Eigen::Map<Eigen::RowVectorX<T>> db(d_parameters + plan_.bias, outputs_);
    T* factors = std::copy_n(d_out, rows * outputs_, d_parameters + plan_.weight);
    std::copy_n(in, rows * inputs_, factors);
    db = dy.colwise().sum();
  }

 private:
  LayerPlan plan_;
  Eigen::Index inputs_;
  Eigen::Index outputs_;
};

}  // namespace

LayerFamily dense_layers() { return {make_one<Dense, float>, make_one<Dense, double>}; }

}  // namespace gv
