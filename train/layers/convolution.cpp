// Two-dimensional convolutions as matrix products of unrolled windows (im2col).
#include <algorithm>
#include <vector>

#include "base/range.hpp"
#include "train/layers/functions.hpp"
#include "train/layers/layer.hpp"
#include "train/layers/product.hpp"

namespace gv {
namespace {

/// The largest number of values that are unrolled at a time, unless one row of outputs needs more.
/// In float, they fill half of a typical second-level cache.
constexpr std::size_t unrolled_max = std::size_t{1} << 17;

/// Unrolls the windows of one sample's outputs strip by strip. With C input channels, O output
/// channels, k x k kernels and S places in a strip:
///   columns = the values under each window   (C k k, S)
///   y's strip = w columns + b                (O, S)
template <class T>
class Im2col final : public Layer<T> {
 public:
  explicit Im2col(const LayerPlan& plan)
      : plan_(plan),
        window_(plan.in[0] * plan.spec.kernel * plan.spec.kernel),
        places_(plan.out[1] * plan.out[2]),
        rows_(std::clamp<std::size_t>(unrolled_max / (window_ * plan.out[2]), 1, plan.out[1])),
        columns_(window_ * rows_ * plan.out[2]) {}

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool, Rng&) override {
    const T* w = parameters + plan_.weight;
    const T* b = parameters + plan_.bias;
    each_strip(batch, [&](std::size_t n, const Range& strip) {
      const std::size_t size = strip.size() * plan_.out[2];
      unroll(in + n * elements(plan_.in), strip);
      multiply<T>({units(), size, window_}, {w, window_}, {columns_.data(), size},
                  out + n * elements(plan_.out) + strip.begin * plan_.out[2], places_);
    });
    for (std::size_t plane = 0; plane < batch * units(); ++plane) {
      T* y = out + plane * places_;
      for (std::size_t i = 0; i < places_; ++i) y[i] += b[plane % units()];
    }
  }

  void backward_input(const T* parameters, const T*, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    if (d_in == nullptr) return;
    std::fill_n(d_in, batch * elements(plan_.in), T(0));
    each_strip(batch, [&](std::size_t n, const Range& strip) {
      const std::size_t size = strip.size() * plan_.out[2];
      multiply<T>({window_, size, units()}, {parameters + plan_.weight, window_, true},
                  {d_out + n * elements(plan_.out) + strip.begin * plan_.out[2], places_},
                  columns_.data(), size);
      roll_up(d_in + n * elements(plan_.in), strip);
    });
  }

  void backward_weight(const T*, const T* in, const T*, const T* d_out, T* d_parameters,
                       std::size_t batch) override {
    std::fill_n(d_parameters + plan_.weight, units() * window_, T(0));
    each_strip(batch, [&](std::size_t n, const Range& strip) {
      const std::size_t size = strip.size() * plan_.out[2];
      unroll(in + n * elements(plan_.in), strip);
      multiply<T>({units(), window_, size},
                  {d_out + n * elements(plan_.out) + strip.begin * plan_.out[2], places_},
                  {columns_.data(), size, true}, d_parameters + plan_.weight, window_, T(1), true);
    });
    sum_channels(d_out, batch, units(), places_, d_parameters + plan_.bias);
  }

 private:
  std::size_t units() const { return plan_.spec.units; }

  template <class Visit>
  void each_strip(std::size_t batch, Visit visit) {
    for (std::size_t n = 0; n < batch; ++n) {
      for (std::size_t row = 0; row < plan_.out[1]; row += rows_) {
        visit(n, Range{row, std::min(row + rows_, plan_.out[1])});
      }
    }
  }

  /// The inputs under one element of the kernel for one row of outputs. At places [begin, end) of
  /// the row they are image values; elsewhere they are padding. The first image value is at index
  /// `at`, and the others follow at the layer's stride.
  struct Run {
    std::size_t at = 0;
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  Run run(std::size_t channel, std::size_t ky, std::size_t kx, std::size_t row) const {
    const std::size_t padding = plan_.spec.padding;
    const std::size_t stride = plan_.spec.stride;
    const std::size_t y = row * stride + ky;
    if (y < padding || y - padding >= plan_.in[1]) return {};
    const std::size_t begin = kx < padding ? (padding - kx + stride - 1) / stride : 0;
    const std::size_t reach = plan_.in[2] + padding;
    const std::size_t end =
        kx < reach ? std::min((reach - kx + stride - 1) / stride, plan_.out[2]) : 0;
    if (begin >= end) return {};
    return {(channel * plan_.in[1] + y - padding) * plan_.in[2] + begin * stride + kx - padding,
            begin, end};
  }

  /// Calls visit(run, the run's offset in `columns`) for every row of a strip under every element
  /// of the kernel.
  template <class Visit>
  void each_run(const Range& strip, Visit visit) const {
    std::size_t column = 0;
    for (std::size_t c = 0; c < plan_.in[0]; ++c) {
      for (std::size_t ky = 0; ky < plan_.spec.kernel; ++ky) {
        for (std::size_t kx = 0; kx < plan_.spec.kernel; ++kx) {
          for (std::size_t row = strip.begin; row < strip.end; ++row, column += plan_.out[2]) {
            visit(run(c, ky, kx, row), column);
          }
        }
      }
    }
  }

  void unroll(const T* image, const Range& strip) {
    each_run(strip, [&](const Run& run, std::size_t column) {
      T* to = columns_.data() + column;
      std::fill_n(to, run.begin, T(0));
      const T* from = image + run.at;
      for (std::size_t x = run.begin; x < run.end; ++x, from += plan_.spec.stride) to[x] = *from;
      std::fill(to + run.end, to + plan_.out[2], T(0));
    });
  }

  void roll_up(T* image, const Range& strip) const {
    each_run(strip, [&](const Run& run, std::size_t column) {
      T* to = image + run.at;
      for (std::size_t x = run.begin; x < run.end; ++x, to += plan_.spec.stride) {
        *to += columns_[column + x];
      }
    });
  }

  LayerPlan plan_;
  std::size_t window_;      ///< Elements in one window: C k k.
  std::size_t places_;      ///< Number of windows in one sample: H' W'.
  std::size_t rows_;        ///< Rows of outputs in a strip.
  std::vector<T> columns_;  ///< The unrolled windows of a strip, or their gradient.
};

template <class T>
std::unique_ptr<Layer<T>> make_convolution(const LayerPlan& plan) {
  if (plan.spec.convolution == ConvolutionMethod::fft) {
    return std::get<LayerMaker<T>>(fft_convolution_layers())(plan);
  }
  return std::make_unique<Im2col<T>>(plan);
}

}  // namespace

LayerFamily convolution_layers() { return {make_convolution<float>, make_convolution<double>}; }

}  // namespace gv
