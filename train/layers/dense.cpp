// Dense layers: y = x W^T + b.
#include <algorithm>

#include "train/layers/layer.hpp"
#include "train/layers/product.hpp"

namespace gv {
namespace {

/// With R rows, I inputs and O outputs: x (R, I), W (O, I), b (O), y (R, O).
template <class T>
class Dense final : public Layer<T> {
 public:
  explicit Dense(const LayerPlan& plan)
      : plan_(plan), inputs_(elements(plan.in) / plan.rows), outputs_(plan.spec.units) {}

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool, Rng&) override {
    const std::size_t rows = batch * plan_.rows;
    multiply<T>({rows, outputs_, inputs_}, {in, inputs_},
                {parameters + plan_.weight, inputs_, true}, out, outputs_);
    const T* b = parameters + plan_.bias;
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < outputs_; ++i) out[row * outputs_ + i] += b[i];
    }
  }

  void backward_input(const T* parameters, const T*, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    if (d_in == nullptr) return;
    multiply<T>({batch * plan_.rows, inputs_, outputs_}, {d_out, outputs_},
                {parameters + plan_.weight, inputs_}, d_in, inputs_);
  }

  void backward_weight(const T*, const T* in, const T*, const T* d_out, T* d_parameters,
                       std::size_t batch) override {
    const std::size_t rows = batch * plan_.rows;
    multiply<T>({outputs_, inputs_, rows}, {d_out, outputs_, true}, {in, inputs_},
                d_parameters + plan_.weight, inputs_);
    sum_rows(d_out, rows, d_parameters + plan_.bias);
  }

  void weight_factors(const T* in, const T* d_out, T* d_parameters, std::size_t batch) override {
    const std::size_t rows = batch * plan_.rows;
    T* factors = std::copy_n(d_out, rows * outputs_, d_parameters + plan_.weight);
    std::copy_n(in, rows * inputs_, factors);
    sum_rows(d_out, rows, d_parameters + plan_.bias);
  }

 private:
  void sum_rows(const T* d_out, std::size_t rows, T* db) const {
    std::fill_n(db, outputs_, T(0));
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < outputs_; ++i) db[i] += d_out[row * outputs_ + i];
    }
  }

  LayerPlan plan_;
  std::size_t inputs_;
  std::size_t outputs_;
};

}  // namespace

LayerFamily dense_layers() { return {make_one<Dense, float>, make_one<Dense, double>}; }

}  // namespace gv
