// Layer norm (Ba 2016) and group norm (Wu and He 2018). They use no statistics over the batch, so
// replicas with different data normalise alike.
#include <algorithm>
#include <cmath>
#include <vector>

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

/// Normalises groups of consecutive channels, with one gain for each channel.
template <class T>
class GroupNorm final : public Layer<T> {
 public:
  explicit GroupNorm(const LayerPlan& plan)
      : plan_(plan),
        groups_(plan.spec.groups),
        span_(elements(plan.in) / groups_),
        per_gain_(plan.in[1] * plan.in[2]) {}

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool, Rng&) override {
    const T* gain = parameters + plan_.weight;
    const T* bias = parameters + plan_.bias;
    means_.resize(batch * groups_);
    scales_.resize(batch * groups_);
    for (std::size_t g = 0; g < batch * groups_; ++g) {
      const T* x = in + g * span_;
      T mean = 0;
      for (std::size_t i = 0; i < span_; ++i) mean += x[i];
      mean /= static_cast<T>(span_);
      T variance = 0;
      for (std::size_t i = 0; i < span_; ++i) variance += (x[i] - mean) * (x[i] - mean);
      variance /= static_cast<T>(span_);
      means_[g] = mean;
      scales_[g] = 1 / std::sqrt(variance + static_cast<T>(norm_epsilon));
      const std::size_t first = g % groups_ * span_;
      for (std::size_t i = 0; i < span_; ++i) {
        const std::size_t own = (first + i) / per_gain_;
        out[g * span_ + i] = gain[own] * (x[i] - mean) * scales_[g] + bias[own];
      }
    }
  }

  void backward_input(const T* parameters, const T* in, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    if (d_in == nullptr) return;
    const T* gain = parameters + plan_.weight;
    for (std::size_t g = 0; g < batch * groups_; ++g) {
      const T* x = in + g * span_;
      const T* dy = d_out + g * span_;
      const std::size_t first = g % groups_ * span_;
      // With h = (x - mean) * scale and dh = gain * dy:
      // dx = scale * (dh - mean(dh) - h * mean(dh * h)).
      T sum_dh = 0;
      T sum_dh_h = 0;
      for (std::size_t i = 0; i < span_; ++i) {
        const std::size_t own = (first + i) / per_gain_;
        const T h = (x[i] - means_[g]) * scales_[g];
        sum_dh += gain[own] * dy[i];
        sum_dh_h += gain[own] * dy[i] * h;
      }
      const T mean_dh = sum_dh / static_cast<T>(span_);
      const T mean_dh_h = sum_dh_h / static_cast<T>(span_);
      for (std::size_t i = 0; i < span_; ++i) {
        const std::size_t own = (first + i) / per_gain_;
        const T h = (x[i] - means_[g]) * scales_[g];
        d_in[g * span_ + i] = scales_[g] * (gain[own] * dy[i] - mean_dh - h * mean_dh_h);
      }
    }
  }

  void backward_weight(const T*, const T* in, const T*, const T* d_out, T* d_parameters,
                       std::size_t batch) override {
    T* d_gain = d_parameters + plan_.weight;
    T* d_bias = d_parameters + plan_.bias;
    const std::size_t gains = groups_ * span_ / per_gain_;
    std::fill_n(d_gain, gains, T(0));
    std::fill_n(d_bias, gains, T(0));
    for (std::size_t g = 0; g < batch * groups_; ++g) {
      const T* x = in + g * span_;
      const T* dy = d_out + g * span_;
      const std::size_t first = g % groups_ * span_;
      for (std::size_t i = 0; i < span_; ++i) {
        const std::size_t own = (first + i) / per_gain_;
        d_gain[own] += dy[i] * ((x[i] - means_[g]) * scales_[g]);
        d_bias[own] += dy[i];
      }
    }
  }

 private:
  LayerPlan plan_;
  std::size_t groups_;
  std::size_t span_;      ///< Number of elements in one group of one sample.
  std::size_t per_gain_;  ///< Number of consecutive elements that share a gain.
  std::vector<T> means_;
  std::vector<T> scales_;
};

template <class T>
std::unique_ptr<Layer<T>> make(const LayerPlan& plan) {
  if (plan.spec.kind == LayerKind::layer_norm) return std::make_unique<LayerNorm<T>>(plan);
  return std::make_unique<GroupNorm<T>>(plan);
}

}  // namespace

LayerFamily normalisation_layers() { return {make<float>, make<double>}; }

}  // namespace gv
