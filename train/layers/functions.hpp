// Functions of many numbers at once, written so that the compiler can vectorise them.
#pragma once

#include <cstddef>

namespace gv {

// In float, exponentials are polynomials with a relative error of 2e-7 (three units in the last
// place), and Phi has an absolute error of 2e-7 (Abramowitz and Stegun 7.1.26). In double, both
// come from the standard library. Sums use sixteen interleaved partial sums. The results do not
// depend on the processor.

/// Writes to sums[c] the sum of channel c of x (batch, channels, size), over samples and positions.
void sum_channels(const float* x, std::size_t batch, std::size_t channels, std::size_t size,
                  float* sums);
void sum_channels(const double* x, std::size_t batch, std::size_t channels, std::size_t size,
                  double* sums);

/// Turns the gradient of a ReLU's outputs y into that of its inputs, in place: dy = 0 unless y > 0.
void relu_backward(const float* y, float* dy, std::size_t n);

/// Adds x to sum, element by element.
void add_to(const float* x, float* sum, std::size_t n);

/// y = x Phi(x), where Phi is the cumulative normal distribution (Hendrycks and Gimpel 2016).
void gelu(const float* x, float* y, std::size_t n);
void gelu(const double* x, double* y, std::size_t n);

/// The backward pass of gelu(): dx = dy (Phi(x) + x phi(x)), where phi is the normal density.
void gelu_backward(const float* x, const float* dy, float* dx, std::size_t n);
void gelu_backward(const double* x, const double* dy, double* dx, std::size_t n);

/// Writes y = exp(x - m), where m is the largest x. y may be x. Returns the sum of y.
float exponentials(const float* x, float* y, std::size_t n);
double exponentials(const double* x, double* y, std::size_t n);

/// Turns d, the gradient of p = softmax(s), into the gradient of s, in place: d = p (d - sum of d
/// p).
void softmax_backward(const float* p, float* d, std::size_t n);
void softmax_backward(const double* p, double* d, std::size_t n);

/// Computes one position of n LSTM cells: c = s(f) before + s(i) tanh(g) and h = s(o) tanh(c),
/// where s is the logistic function. On entry `z` holds the weighted sums of the gates i, f, g and
/// o, n of each. On return it holds s(i), s(f), tanh(g) and s(o).
void lstm_forward(float* z, const float* before, float* c, float* h, std::size_t n);
void lstm_forward(double* z, const double* before, double* c, double* h, std::size_t n);

/// Computes `dz`, the gradient of the gates' weighted sums, from the `z` that lstm_forward() has
/// written and the gradients `dh` and `dc` of h and c. Then `dc` becomes the gradient of `before`.
void lstm_backward(const float* z, const float* before, const float* c, const float* dh, float* dc,
                   float* dz, std::size_t n);
void lstm_backward(const double* z, const double* before, const double* c, const double* dh,
                   double* dc, double* dz, std::size_t n);

/// Returns the id that an embedding with ids up to `last` looks up for an input. In a pipeline the
/// inputs may come from another peer and be wrong. So an id that does not exist is replaced by one
/// that does, and NaN by the first id. Our own data have only existing ids, because a config with
/// too small a vocabulary is refused.
template <class T>
std::size_t existing_id(T value, std::size_t last) {
  if (!(value > 0)) return 0;
  return value < static_cast<T>(last) ? static_cast<std::size_t>(value) : last;
}

/// Added to a variance before dividing by its square root.
constexpr double norm_epsilon = 1e-5;

/// The statistics of one row in a layer norm: y = gain (x - mean) scale + bias, with scale = 1 /
/// sqrt(variance + norm_epsilon).
template <class T>
struct RowStatistics {
  T mean = 0;
  T scale = 0;
};
RowStatistics<float> normalise_row(const float* x, const float* gain, const float* bias, float* y,
                                   std::size_t n);
RowStatistics<double> normalise_row(const double* x, const double* gain, const double* bias,
                                    double* y, std::size_t n);

/// Computes dx, the gradient of x. With h = (x - mean) scale and dh = gain dy: dx = scale (dh -
/// mean(dh) - h mean(dh h)).
void normalise_row_input(const RowStatistics<float>& row, const float* x, const float* gain,
                         const float* dy, float* dx, std::size_t n);
void normalise_row_input(const RowStatistics<double>& row, const double* x, const double* gain,
                         const double* dy, double* dx, std::size_t n);

/// Adds dy h to d_gain and dy to d_bias, where h = (x - mean) scale.
void normalise_row_weight(const RowStatistics<float>& row, const float* x, const float* dy,
                          float* d_gain, float* d_bias, std::size_t n);
void normalise_row_weight(const RowStatistics<double>& row, const double* x, const double* dy,
                          double* d_gain, double* d_bias, std::size_t n);

}  // namespace gv
