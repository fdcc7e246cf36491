// Layer norm (Ba 2016), group norm (Wu and He 2018) and batch norm (Ioffe and Szegedy 2015).
#include <algorithm>
#include <memory>
#include <vector>

#include "train/layers/cut_norm.hpp"
#include "train/layers/functions.hpp"
#include "train/layers/layer.hpp"

namespace gv {
namespace {

/// y = gain * (x - mean) / sqrt(variance + epsilon) + bias for each row, which is a whole sample or
/// one position of it.
template <class T>
class LayerNorm final : public Layer<T> {
 public:
  explicit LayerNorm(const LayerPlan& plan) : plan_(plan), width_(elements(plan.in) / plan.rows) {}

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool, Rng&) override {
    statistics_.resize(batch * plan_.rows);
    for (std::size_t row = 0; row < statistics_.size(); ++row) {
      statistics_[row] = normalise_row(in + row * width_, parameters + plan_.weight,
                                       parameters + plan_.bias, out + row * width_, width_);
    }
  }

  void backward_input(const T* parameters, const T* in, const T*, const T* d_out, T* d_in,
                      std::size_t) override {
    if (d_in == nullptr) return;
    for (std::size_t row = 0; row < statistics_.size(); ++row) {
      normalise_row_input(statistics_[row], in + row * width_, parameters + plan_.weight,
                          d_out + row * width_, d_in + row * width_, width_);
    }
  }

  void backward_weight(const T*, const T* in, const T*, const T* d_out, T* d_parameters,
                       std::size_t) override {
    T* d_gain = d_parameters + plan_.weight;
    T* d_bias = d_parameters + plan_.bias;
    std::fill_n(d_gain, width_, T(0));
    std::fill_n(d_bias, width_, T(0));
    for (std::size_t row = 0; row < statistics_.size(); ++row) {
      normalise_row_weight(statistics_[row], in + row * width_, d_out + row * width_, d_gain,
                           d_bias, width_);
    }
  }

 private:
  LayerPlan plan_;
  std::size_t width_;
  std::vector<RowStatistics<T>> statistics_;
};

/// A group norm or a batch norm of whole images: each image is a single strip. In training, a batch
/// norm uses the statistics of the batch; otherwise it uses the running statistics.
template <class T>
class ImageNorm final : public Layer<T> {
 public:
  explicit ImageNorm(const LayerPlan& plan)
      : has_running_(plan.spec.kind == LayerKind::batch_norm), norm_(plan, {{0, plan.in[1]}}, 0) {}

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool training,
               Rng&) override {
    if (has_running_ && !training) return norm_.forward_by_running(parameters, in, out, batch);
    sum_.assign(norm_.floats(batch), T(0));
    norm_.give(in, sum_.data(), batch);
    norm_.forward(parameters, in, sum_.data(), out, batch);
  }

  void backward_input(const T* parameters, const T* in, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    if (d_in == nullptr) return;
    sum_.assign(norm_.floats_back(batch), T(0));
    norm_.give_back(parameters, in, d_out, sum_.data(), batch);
    norm_.backward(parameters, in, d_out, sum_.data(), d_in, batch);
  }

  void backward_weight(const T* parameters, const T* in, const T*, const T* d_out, T* d_parameters,
                       std::size_t batch) override {
    norm_.write_gradient(parameters, in, d_out, d_parameters, batch);
  }

 private:
  bool has_running_;
  StripNorm<T> norm_;
  std::vector<T> sum_;
};

template <class T>
std::unique_ptr<Layer<T>> make_norm(const LayerPlan& plan) {
  if (plan.spec.kind == LayerKind::layer_norm) return std::make_unique<LayerNorm<T>>(plan);
  return std::make_unique<ImageNorm<T>>(plan);
}

}  // namespace

LayerFamily normalisation_layers() { return {make_norm<float>, make_norm<double>}; }

}  // namespace gv
