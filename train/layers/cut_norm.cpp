// Statistics of rows, and of whole images from them.
#include "train/layers/cut_norm.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "train/layers/functions.hpp"

namespace gv {

template <class T>
StripNorm<T>::StripNorm(const LayerPlan& layer, std::vector<Range> strips, std::size_t own)
    : plan_(layer), groups_(layer.spec.groups), strips_(std::move(strips)), own_(own) {}

template <class T>
template <class Use>
void StripNorm<T>::each_channel(std::size_t batch, const Use& use) const {
  const std::size_t channels = plan_.in[0];
  for (std::size_t i = 0; i < batch * channels; ++i) {
    use(i / (channels / groups_), i % channels, i * plane());
  }
}

template <class T>
void StripNorm<T>::give(const T* in, T* summand, std::size_t batch) {
  kept_.assign(floats_back(batch), T(0));
  if (span() == 0) return;
  for (std::size_t g = 0; g < batch * groups_; ++g) {
    const T* x = in + g * span();
    T mean = 0;
    for (std::size_t i = 0; i < span(); ++i) mean += x[i];
    mean /= static_cast<T>(span());
    T squares = 0;
    for (std::size_t i = 0; i < span(); ++i) squares += (x[i] - mean) * (x[i] - mean);
    kept_[2 * g] = mean;
    kept_[2 * g + 1] = squares;
  }
  std::ranges::copy(kept_, summand + own_ * kept_.size());
}

template <class T>
void StripNorm<T>::forward(const T* parameters, const T* in, const T* sum, T* out,
                           std::size_t batch) {
  const std::size_t all = batch * groups_;
  const T height = static_cast<T>(plan_.in[1]);
  const T values = static_cast<T>(elements(plan_.in) / groups_);
  means_.assign(all, T(0));
  scales_.assign(all, T(0));
  for (std::size_t g = 0; g < all; ++g) {
    const auto of = [&](std::size_t strip) {
      return strip == own_ ? kept_.data() + 2 * g : sum + 2 * (strip * all + g);
    };
    for (std::size_t strip = 0; strip < strips_.size(); ++strip) {
      means_[g] += of(strip)[0] * (static_cast<T>(strips_[strip].size()) / height);
    }
    T squares = 0;
    for (std::size_t strip = 0; strip < strips_.size(); ++strip) {
      const T apart = of(strip)[0] - means_[g];
      // Another member's sum of squares may be anything.
      squares += std::max(T(0), of(strip)[1]) +
                 values * static_cast<T>(strips_[strip].size()) / height * apart * apart;
    }
    scales_[g] = 1 / std::sqrt(squares / values + static_cast<T>(norm_epsilon));
  }
  const T* gain = parameters + plan_.weight;
  const T* bias = parameters + plan_.bias;
  each_channel(batch, [&](std::size_t g, std::size_t channel, std::size_t begin) {
    for (std::size_t i = begin; i < begin + plane(); ++i) {
      out[i] = gain[channel] * (in[i] - means_[g]) * scales_[g] + bias[channel];
    }
  });
}

template <class T>
void StripNorm<T>::give_back(const T* parameters, const T* in, const T* d_out, T* summand,
                             std::size_t batch) const {
  const T* gain = parameters + plan_.weight;
  each_channel(batch, [&](std::size_t g, std::size_t channel, std::size_t begin) {
    for (std::size_t i = begin; i < begin + plane(); ++i) {
      const T normal = (in[i] - means_[g]) * scales_[g];
      summand[2 * g] += gain[channel] * d_out[i];
      summand[2 * g + 1] += gain[channel] * d_out[i] * normal;
    }
  });
}

template <class T>
void StripNorm<T>::backward(const T* parameters, const T* in, const T* d_out, const T* sum, T* d_in,
                            std::size_t batch) const {
  const T* gain = parameters + plan_.weight;
  const T values = static_cast<T>(elements(plan_.in) / groups_);
  // With h = (x - mean) * scale and dh = gain * dy: dx = scale * (dh - mean(dh) - h * mean(dh h)).
  each_channel(batch, [&](std::size_t g, std::size_t channel, std::size_t begin) {
    for (std::size_t i = begin; i < begin + plane(); ++i) {
      const T normal = (in[i] - means_[g]) * scales_[g];
      d_in[i] = scales_[g] * (gain[channel] * d_out[i] - sum[2 * g] / values -
                              normal * (sum[2 * g + 1] / values));
    }
  });
}

template <class T>
void StripNorm<T>::write_gradient(const T* in, const T* d_out, T* d_parameters,
                                  std::size_t batch) const {
  T* d_gain = d_parameters + plan_.weight;
  T* d_bias = d_parameters + plan_.bias;
  std::fill_n(d_gain, plan_.in[0], T(0));
  std::fill_n(d_bias, plan_.in[0], T(0));
  each_channel(batch, [&](std::size_t g, std::size_t channel, std::size_t begin) {
    for (std::size_t i = begin; i < begin + plane(); ++i) {
      d_gain[channel] += d_out[i] * ((in[i] - means_[g]) * scales_[g]);
      d_bias[channel] += d_out[i];
    }
  });
}

template class StripNorm<float>;
template class StripNorm<double>;

}  // namespace gv
