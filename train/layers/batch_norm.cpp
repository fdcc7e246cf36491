// Batch norm (Ioffe and Szegedy 2015), whose running statistics can be averaged over peers.
#include <algorithm>
#include <cmath>
#include <vector>

#include "train/layers/functions.hpp"
#include "train/layers/layer.hpp"

namespace gv {
namespace {

/// y = gain * (x - mean) / sqrt(variance + epsilon) + bias for each channel. In training the mean
/// and the variance are the batch's own, over all samples and places; otherwise they come from the
/// running statistics. Those are a mean and a mean square, not a variance: their means over batches
/// or peers are the mean and the mean square of all the samples, while a mean of variances lacks
/// what the means differ by.
template <class T>
class BatchNorm final : public Layer<T> {
 public:
  explicit BatchNorm(const LayerPlan& plan)
      : plan_(plan), channels_(plan.in[0]), places_(plan.in[1] * plan.in[2]) {}

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool training,
               Rng&) override {
    means_.resize(channels_);
    variances_.resize(channels_);
    for (std::size_t c = 0; c < channels_; ++c) {
      if (training) {
        measure(in, c, batch);
      } else {
        means_[c] = parameters[mean_at(c)];
        // Rounding, or values from other peers, may make the mean square smaller than the square of
        // the mean.
        variances_[c] = std::max(T(0), parameters[square_at(c)] - means_[c] * means_[c]);
      }
      const T scale = parameters[plan_.weight + c] * scale_of(c);
      const T shift = parameters[plan_.bias + c];
      each_place(c, batch, [&](std::size_t i) { out[i] = scale * (in[i] - means_[c]) + shift; });
    }
  }

  /// With h = (x - mean) * scale: dx = gain * scale * (dy - mean(dy) - h * mean(dy * h)).
  void backward_input(const T* parameters, const T* in, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    sums_.assign(channels_, T(0));
    products_.assign(channels_, T(0));
    const T count = static_cast<T>(batch * places_);
    for (std::size_t c = 0; c < channels_; ++c) {
      const T scale = scale_of(c);
      each_place(c, batch, [&](std::size_t i) {
        sums_[c] += d_out[i];
        products_[c] += d_out[i] * ((in[i] - means_[c]) * scale);
      });
      if (d_in == nullptr) continue;
      const T whole = parameters[plan_.weight + c] * scale;
      each_place(c, batch, [&](std::size_t i) {
        const T h = (in[i] - means_[c]) * scale;
        d_in[i] = whole * (d_out[i] - sums_[c] / count - h * products_[c] / count);
      });
    }
  }

  void backward_weight(const T* parameters, const T*, const T*, const T*, T* d_parameters,
                       std::size_t) override {
    std::ranges::copy(products_, d_parameters + plan_.weight);
    std::ranges::copy(sums_, d_parameters + plan_.bias);
    for (std::size_t c = 0; c < channels_; ++c) {
      const T square = variances_[c] + means_[c] * means_[c];
      d_parameters[mean_at(c)] = parameters[mean_at(c)] - means_[c];
      d_parameters[square_at(c)] = parameters[square_at(c)] - square;
    }
  }

 private:
  std::size_t mean_at(std::size_t c) const { return plan_.bias + channels_ + c; }
  std::size_t square_at(std::size_t c) const { return plan_.bias + 2 * channels_ + c; }
  T scale_of(std::size_t c) const {
    return 1 / std::sqrt(variances_[c] + static_cast<T>(norm_epsilon));
  }

  /// Calls visit(index) for each value of the channel in the batch.
  template <class Visit>
  void each_place(std::size_t c, std::size_t batch, Visit visit) const {
    for (std::size_t n = 0; n < batch; ++n) {
      const std::size_t begin = (n * channels_ + c) * places_;
      for (std::size_t i = begin; i < begin + places_; ++i) visit(i);
    }
  }

  void measure(const T* in, std::size_t c, std::size_t batch) {
    const T count = static_cast<T>(batch * places_);
    T sum = 0;
    each_place(c, batch, [&](std::size_t i) { sum += in[i]; });
    const T mean = sum / count;
    T squares = 0;
    each_place(c, batch, [&](std::size_t i) { squares += (in[i] - mean) * (in[i] - mean); });
    means_[c] = mean;
    variances_[c] = squares / count;
  }

  LayerPlan plan_;
  std::size_t channels_;
  std::size_t places_;  ///< Number of values of a channel in a sample.
  std::vector<T> means_;
  std::vector<T> variances_;
  std::vector<T> sums_;      ///< Sums of dy.
  std::vector<T> products_;  ///< Sums of dy * h.
};

}  // namespace

LayerFamily batch_norm_layers() {
  return {make_one<BatchNorm, float>, make_one<BatchNorm, double>};
}

}  // namespace gv
