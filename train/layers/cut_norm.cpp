// Computes the statistics of strips, and combines them into the statistics of whole images.
#include "train/layers/cut_norm.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "train/layers/functions.hpp"

namespace gv {

template <class T>
StripNorm<T>::StripNorm(const LayerPlan& layer, std::vector<Range> strips, std::size_t own)
    : plan_(layer),
      is_of_batch_(layer.spec.kind == LayerKind::batch_norm),
      groups_(is_of_batch_ ? layer.in[0] : layer.spec.groups),
      strips_(std::move(strips)),
      own_(own) {}

template <class T>
template <class Use>
void StripNorm<T>::each_channel(std::size_t batch, const Use& use) const {
  const std::size_t channels = plan_.in[0];
  for (std::size_t i = 0; i < batch * channels; ++i) {
    const std::size_t cell = is_of_batch_ ? i % channels : i / (channels / groups_);
    use(cell, i % channels, i * plane());
  }
}

template <class T>
void StripNorm<T>::give(const T* in, T* summand, std::size_t batch) {
  kept_.assign(floats_back(batch), T(0));
  const std::size_t own = values(batch, strips_[own_].size());
  if (own == 0) return;
  each_channel(batch, [&](std::size_t cell, std::size_t, std::size_t begin) {
    // A float could not hold the sum of a large image's pixels accurately enough.
    double sum = kept_[2 * cell];
    for (std::size_t i = begin; i < begin + plane(); ++i) sum += in[i];
    kept_[2 * cell] = static_cast<T>(sum);
  });
  for (std::size_t cell = 0; cell < cells(batch); ++cell) kept_[2 * cell] /= static_cast<T>(own);
  each_channel(batch, [&](std::size_t cell, std::size_t, std::size_t begin) {
    const T mean = kept_[2 * cell];
    double squares = kept_[2 * cell + 1];
    for (std::size_t i = begin; i < begin + plane(); ++i) {
      squares += (in[i] - mean) * (in[i] - mean);
    }
    kept_[2 * cell + 1] = static_cast<T>(squares);
  });
  std::ranges::copy(kept_, summand + own_ * kept_.size());
}

template <class T>
void StripNorm<T>::forward(const T* parameters, const T* in, const T* sum, T* out,
                           std::size_t batch) {
  const std::size_t all = cells(batch);
  const T height = static_cast<T>(plan_.in[1]);
  const T count = static_cast<T>(values(batch, plan_.in[1]));
  means_.assign(all, T(0));
  scales_.assign(all, T(0));
  for (std::size_t cell = 0; cell < all; ++cell) {
    const auto of = [&](std::size_t strip) {
      return strip == own_ ? kept_.data() + 2 * cell : sum + 2 * (strip * all + cell);
    };
    for (std::size_t strip = 0; strip < strips_.size(); ++strip) {
      means_[cell] += of(strip)[0] * (static_cast<T>(strips_[strip].size()) / height);
    }
    T squares = 0;
    for (std::size_t strip = 0; strip < strips_.size(); ++strip) {
      const T apart = of(strip)[0] - means_[cell];
      // Another member may send any number. A negative sum of squares counts as 0.
      squares += std::max(T(0), of(strip)[1]) +
                 count * static_cast<T>(strips_[strip].size()) / height * apart * apart;
    }
    scales_[cell] = 1 / std::sqrt(squares / count + static_cast<T>(norm_epsilon));
  }
  normalise(parameters, in, out, batch);
}

template <class T>
void StripNorm<T>::forward_by_running(const T* parameters, const T* in, T* out, std::size_t batch) {
  means_.resize(groups_);
  scales_.resize(groups_);
  for (std::size_t c = 0; c < groups_; ++c) {
    means_[c] = parameters[mean_at(c)];
    // Rounding, or values from other peers, may make the mean square smaller than the square of
    // the mean.
    const T variance = std::max(T(0), parameters[square_at(c)] - means_[c] * means_[c]);
    scales_[c] = 1 / std::sqrt(variance + static_cast<T>(norm_epsilon));
  }
  normalise(parameters, in, out, batch);
}

template <class T>
void StripNorm<T>::normalise(const T* parameters, const T* in, T* out, std::size_t batch) const {
  const T* gain = parameters + plan_.weight;
  const T* bias = parameters + plan_.bias;
  each_channel(batch, [&](std::size_t cell, std::size_t channel, std::size_t begin) {
    const T mean = means_[cell];
    const T scale = scales_[cell];
    const T slope = gain[channel];
    const T shift = bias[channel];
    for (std::size_t i = begin; i < begin + plane(); ++i) {
      out[i] = slope * (in[i] - mean) * scale + shift;
    }
  });
}

template <class T>
void StripNorm<T>::give_back(const T* parameters, const T* in, const T* d_out, T* summand,
                             std::size_t batch) const {
  const T* gain = parameters + plan_.weight;
  each_channel(batch, [&](std::size_t cell, std::size_t channel, std::size_t begin) {
    const T mean = means_[cell];
    const T scale = scales_[cell];
    double sum = summand[2 * cell];
    double products = summand[2 * cell + 1];
    for (std::size_t i = begin; i < begin + plane(); ++i) {
      const T d_normal = gain[channel] * d_out[i];
      sum += d_normal;
      products += d_normal * ((in[i] - mean) * scale);
    }
    summand[2 * cell] = static_cast<T>(sum);
    summand[2 * cell + 1] = static_cast<T>(products);
  });
}

template <class T>
void StripNorm<T>::backward(const T* parameters, const T* in, const T* d_out, const T* sum, T* d_in,
                            std::size_t batch) const {
  const T* gain = parameters + plan_.weight;
  const T count = static_cast<T>(values(batch, plan_.in[1]));
  // With h = (x - mean) * scale and dh = gain * dy: dx = scale * (dh - mean(dh) - h * mean(dh h)).
  each_channel(batch, [&](std::size_t cell, std::size_t channel, std::size_t begin) {
    const T mean = means_[cell];
    const T scale = scales_[cell];
    const T slope = gain[channel];
    const T mean_d = sum[2 * cell] / count;
    const T mean_product = sum[2 * cell + 1] / count;
    for (std::size_t i = begin; i < begin + plane(); ++i) {
      d_in[i] = scale * (slope * d_out[i] - mean_d - (in[i] - mean) * scale * mean_product);
    }
  });
}

template <class T>
void StripNorm<T>::write_gradient(const T* parameters, const T* in, const T* d_out, T* d_parameters,
                                  std::size_t batch) const {
  T* d_gain = d_parameters + plan_.weight;
  T* d_bias = d_parameters + plan_.bias;
  std::fill_n(d_gain, plan_.in[0], T(0));
  std::fill_n(d_bias, plan_.in[0], T(0));
  each_channel(batch, [&](std::size_t cell, std::size_t channel, std::size_t begin) {
    const T mean = means_[cell];
    const T scale = scales_[cell];
    double products = d_gain[channel];
    double sum = d_bias[channel];
    for (std::size_t i = begin; i < begin + plane(); ++i) {
      products += d_out[i] * ((in[i] - mean) * scale);
      sum += d_out[i];
    }
    d_gain[channel] = static_cast<T>(products);
    d_bias[channel] = static_cast<T>(sum);
  });
  if (!is_of_batch_) return;
  // The batch's mean and mean square are averages over the strips, weighted by their rows.
  const std::size_t rows = strips_[own_].size();
  const T part = static_cast<T>(rows) / static_cast<T>(plan_.in[1]);
  const T count = static_cast<T>(std::max<std::size_t>(1, values(batch, rows)));
  for (std::size_t c = 0; c < groups_; ++c) {
    const T mean = kept_[2 * c];
    const T square = kept_[2 * c + 1] / count + mean * mean;
    d_parameters[mean_at(c)] = part * (parameters[mean_at(c)] - mean);
    d_parameters[square_at(c)] = part * (parameters[square_at(c)] - square);
  }
}

template class StripNorm<float>;
template class StripNorm<double>;

}  // namespace gv
