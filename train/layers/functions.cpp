// Loops over many numbers, without branches. Each body is written once, for float and double.
#include "train/layers/functions.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/wide.hpp"

// The function bodies are inlined into the functions at the end of the file, which exist once for
// each vector width.
#define GV_BODY [[gnu::always_inline]] inline

namespace gv {
namespace {

constexpr std::size_t sum_lanes = 16;

/// Returns e^x for x <= 0, as 2^n times a polynomial (Cephes). A float would underflow below x =
/// -87, so such an x counts as -87, which gives 2e-38.
GV_BODY float exponential(float x) {
  x = x < -87.0f ? -87.0f : x;
  // Adding and subtracting 1.5 * 2^23 rounds to the nearest integer. Between these operations, the
  // lowest bits are that integer; a conversion to int would be undefined for NaN.
  constexpr float rounder = 12582912.0f;
  const float shifted = x * std::numbers::log2e_v<float> + rounder;
  const float n = shifted - rounder;
  const float rest = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float sum = 1.9875691500e-4f;
  sum = sum * rest + 1.3981999507e-3f;
  sum = sum * rest + 8.3334519073e-3f;
  sum = sum * rest + 4.1665795894e-2f;
  sum = sum * rest + 1.6666665459e-1f;
  sum = sum * rest + 5.0000001201e-1f;
  sum = sum * rest * rest + rest + 1.0f;
  const std::uint32_t whole =
      std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(rounder);
  return sum * std::bit_cast<float>((whole + 127) << 23);
}
GV_BODY double exponential(double x) { return std::exp(x); }

/// Returns Phi(x), the cumulative normal distribution. `bell` is exp(-x^2 / 2).
GV_BODY float cumulative(float x, float bell) {
  const float z = std::abs(x) / std::numbers::sqrt2_v<float>;
  const float t = 1.0f / (1.0f + 0.3275911f * z);
  const float sum =
      t * (0.254829592f +
           t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  const float tail = 0.5f * sum * bell;
  return x < 0 ? tail : 1.0f - tail;
}
GV_BODY double cumulative(double x, double) {
  return (1 + std::erf(x / std::numbers::sqrt2_v<double>)) / 2;
}

template <class T>
GV_BODY void gelu_body(const T* __restrict x, T* __restrict y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    y[i] = x[i] * cumulative(x[i], exponential(-x[i] * x[i] / 2));
  }
}

template <class T>
GV_BODY void gelu_backward_body(const T* __restrict x, const T* __restrict dy, T* __restrict dx,
                                std::size_t n) {
  constexpr T density = std::numbers::inv_sqrtpi_v<T> / std::numbers::sqrt2_v<T>;
  for (std::size_t i = 0; i < n; ++i) {
    const T bell = exponential(-x[i] * x[i] / 2);
    dx[i] = dy[i] * (cumulative(x[i], bell) + x[i] * bell * density);
  }
}

/// The logistic function 1 / (1 + e^-x).
template <class T>
GV_BODY T logistic(T x) {
  const T e = exponential(x < 0 ? x : -x);
  return (x < 0 ? e : T(1)) / (1 + e);
}

template <class T>
GV_BODY T hyperbolic_tangent(T x) {
  const T e = exponential(x < 0 ? 2 * x : -2 * x);
  const T y = (1 - e) / (1 + e);
  return x < 0 ? -y : y;
}

template <class T>
GV_BODY void lstm_forward_body(T* __restrict z, const T* __restrict before, T* __restrict c,
                               T* __restrict h, std::size_t n) {
  T* const i = z;
  T* const f = z + n;
  T* const g = z + 2 * n;
  T* const o = z + 3 * n;
  for (std::size_t k = 0; k < n; ++k) {
    i[k] = logistic(i[k]);
    f[k] = logistic(f[k]);
    g[k] = hyperbolic_tangent(g[k]);
    o[k] = logistic(o[k]);
    c[k] = f[k] * before[k] + i[k] * g[k];
    h[k] = o[k] * hyperbolic_tangent(c[k]);
  }
}

template <class T>
GV_BODY void lstm_backward_body(const T* __restrict z, const T* __restrict before,
                                const T* __restrict c, const T* __restrict dh, T* __restrict dc,
                                T* __restrict dz, std::size_t n) {
  const T* const i = z;
  const T* const f = z + n;
  const T* const g = z + 2 * n;
  const T* const o = z + 3 * n;
  for (std::size_t k = 0; k < n; ++k) {
    const T y = hyperbolic_tangent(c[k]);
    const T d = dc[k] + dh[k] * o[k] * (1 - y * y);
    dz[k] = d * g[k] * i[k] * (1 - i[k]);
    dz[n + k] = d * before[k] * f[k] * (1 - f[k]);
    dz[2 * n + k] = d * i[k] * (1 - g[k] * g[k]);
    dz[3 * n + k] = dh[k] * y * o[k] * (1 - o[k]);
    dc[k] = d * f[k];
  }
}

/// The sum of term(i) over all i.
template <class T, class Term>
GV_BODY T sum_of(std::size_t n, Term term) {
  std::array<T, sum_lanes> sums{};
  std::size_t i = 0;
  for (; i + sum_lanes <= n; i += sum_lanes) {
    for (std::size_t k = 0; k < sum_lanes; ++k) sums[k] += term(i + k);
  }
  T total = 0;
  for (; i < n; ++i) total += term(i);
  for (std::size_t k = 0; k < sum_lanes; ++k) total += sums[k];
  return total;
}

template <class T>
GV_BODY void sum_channels_body(const T* x, std::size_t batch, std::size_t channels,
                               std::size_t size, T* sums) {
  std::fill_n(sums, channels, T(0));
  for (std::size_t plane = 0; plane < batch * channels; ++plane, x += size) {
    sums[plane % channels] += sum_of<T>(size, [x](std::size_t i) { return x[i]; });
  }
}

template <class T>
GV_BODY T largest_of(const T* x, std::size_t n) {
  std::array<T, sum_lanes> most;
  most.fill(x[0]);
  std::size_t i = 0;
  for (; i + sum_lanes <= n; i += sum_lanes) {
    for (std::size_t k = 0; k < sum_lanes; ++k) most[k] = x[i + k] > most[k] ? x[i + k] : most[k];
  }
  T largest = x[0];
  for (; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  for (std::size_t k = 0; k < sum_lanes; ++k) largest = most[k] > largest ? most[k] : largest;
  return largest;
}

template <class T>
GV_BODY T exponentials_body(const T* x, T* y, std::size_t n) {
  const T largest = largest_of(x, n);
  for (std::size_t i = 0; i < n; ++i) y[i] = exponential(x[i] - largest);
  return sum_of<T>(n, [&](std::size_t i) { return y[i]; });
}

template <class T>
GV_BODY void softmax_backward_body(const T* __restrict p, T* __restrict d, std::size_t n) {
  const T sum = sum_of<T>(n, [&](std::size_t i) { return d[i] * p[i]; });
  for (std::size_t i = 0; i < n; ++i) d[i] = p[i] * (d[i] - sum);
}

template <class T>
GV_BODY RowStatistics<T> normalise_body(const T* __restrict x, const T* __restrict gain,
                                        const T* __restrict bias, T* __restrict y, std::size_t n) {
  const T count = static_cast<T>(n);
  const T mean = sum_of<T>(n, [&](std::size_t i) { return x[i]; }) / count;
  const T variance =
      sum_of<T>(n, [&](std::size_t i) { return (x[i] - mean) * (x[i] - mean); }) / count;
  const T scale = 1 / std::sqrt(variance + static_cast<T>(norm_epsilon));
  for (std::size_t i = 0; i < n; ++i) y[i] = gain[i] * (x[i] - mean) * scale + bias[i];
  return {mean, scale};
}

template <class T>
GV_BODY void normalise_input_body(T mean, T scale, const T* __restrict x, const T* __restrict gain,
                                  const T* __restrict dy, T* __restrict dx, std::size_t n) {
  const T count = static_cast<T>(n);
  const T mean_dh = sum_of<T>(n, [&](std::size_t i) { return gain[i] * dy[i]; }) / count;
  const T mean_dh_h =
      sum_of<T>(n, [&](std::size_t i) { return gain[i] * dy[i] * ((x[i] - mean) * scale); }) /
      count;
  for (std::size_t i = 0; i < n; ++i) {
    const T h = (x[i] - mean) * scale;
    dx[i] = scale * (gain[i] * dy[i] - mean_dh - h * mean_dh_h);
  }
}

template <class T>
GV_BODY void normalise_weight_body(T mean, T scale, const T* __restrict x, const T* __restrict dy,
                                   T* __restrict d_gain, T* __restrict d_bias, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    d_gain[i] += dy[i] * ((x[i] - mean) * scale);
    d_bias[i] += dy[i];
  }
}

}  // namespace

GV_WIDE void lstm_forward(float* z, const float* before, float* c, float* h, std::size_t n) {
  lstm_forward_body(z, before, c, h, n);
}
void lstm_forward(double* z, const double* before, double* c, double* h, std::size_t n) {
  lstm_forward_body(z, before, c, h, n);
}

GV_WIDE void lstm_backward(const float* z, const float* before, const float* c, const float* dh,
                           float* dc, float* dz, std::size_t n) {
  lstm_backward_body(z, before, c, dh, dc, dz, n);
}
void lstm_backward(const double* z, const double* before, const double* c, const double* dh,
                   double* dc, double* dz, std::size_t n) {
  lstm_backward_body(z, before, c, dh, dc, dz, n);
}

GV_WIDE void sum_channels(const float* x, std::size_t batch, std::size_t channels, std::size_t size,
                          float* sums) {
  sum_channels_body(x, batch, channels, size, sums);
}
void sum_channels(const double* x, std::size_t batch, std::size_t channels, std::size_t size,
                  double* sums) {
  sum_channels_body(x, batch, channels, size, sums);
}

GV_WIDE void relu_backward(const float* __restrict y, float* __restrict dy, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) dy[i] = y[i] > 0 ? dy[i] : 0;
}

GV_WIDE void add_to(const float* __restrict x, float* __restrict sum, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += x[i];
}

GV_WIDE void gelu(const float* x, float* y, std::size_t n) { gelu_body(x, y, n); }
void gelu(const double* x, double* y, std::size_t n) { gelu_body(x, y, n); }

GV_WIDE void gelu_backward(const float* x, const float* dy, float* dx, std::size_t n) {
  gelu_backward_body(x, dy, dx, n);
}
void gelu_backward(const double* x, const double* dy, double* dx, std::size_t n) {
  gelu_backward_body(x, dy, dx, n);
}

GV_WIDE float exponentials(const float* x, float* y, std::size_t n) {
  return exponentials_body(x, y, n);
}
double exponentials(const double* x, double* y, std::size_t n) {
  return exponentials_body(x, y, n);
}

GV_WIDE void softmax_backward(const float* p, float* d, std::size_t n) {
  softmax_backward_body(p, d, n);
}
void softmax_backward(const double* p, double* d, std::size_t n) { softmax_backward_body(p, d, n); }

GV_WIDE RowStatistics<float> normalise_row(const float* x, const float* gain, const float* bias,
                                           float* y, std::size_t n) {
  return normalise_body(x, gain, bias, y, n);
}
RowStatistics<double> normalise_row(const double* x, const double* gain, const double* bias,
                                    double* y, std::size_t n) {
  return normalise_body(x, gain, bias, y, n);
}

GV_WIDE void normalise_row_input(const RowStatistics<float>& row, const float* x, const float* gain,
                                 const float* dy, float* dx, std::size_t n) {
  normalise_input_body(row.mean, row.scale, x, gain, dy, dx, n);
}
void normalise_row_input(const RowStatistics<double>& row, const double* x, const double* gain,
                         const double* dy, double* dx, std::size_t n) {
  normalise_input_body(row.mean, row.scale, x, gain, dy, dx, n);
}

GV_WIDE void normalise_row_weight(const RowStatistics<float>& row, const float* x, const float* dy,
                                  float* d_gain, float* d_bias, std::size_t n) {
  normalise_weight_body(row.mean, row.scale, x, dy, d_gain, d_bias, n);
}
void normalise_row_weight(const RowStatistics<double>& row, const double* x, const double* dy,
                          double* d_gain, double* d_bias, std::size_t n) {
  normalise_weight_body(row.mean, row.scale, x, dy, d_gain, d_bias, n);
}

}  // namespace gv
