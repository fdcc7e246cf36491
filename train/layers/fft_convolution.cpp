// Two-dimensional convolutions as products of spectra (Mathieu 2013), in tiles that overlap.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "train/layers/convolution_method.hpp"
#include "train/layers/fourier.hpp"
#include "train/layers/functions.hpp"
#include "train/layers/layer.hpp"
#include "train/layers/product.hpp"

namespace gv {
namespace {

/// With C input and O output channels, B samples of T tiles each, and F frequencies:
///   X = spectra of the tiles of x                  (F, 2, C, B T)
///   W = spectra of the kernels                     (F, 2, O, C)
///   Y[f] = conj(W[f]) X[f]                         (F, 2, O, B T)
/// The outputs y are those places of Y's images whose windows lie inside a tile; other places are
/// not read. With a stride, some rows and columns of Y's images are left out.
template <class T>
class FftConvolution final : public Layer<T> {
 public:
  explicit FftConvolution(const LayerPlan& plan)
      : plan_(plan),
        tiles_(fft_tiles(plan)),
        fourier_(tiles_.side),
        w_(Fourier<T>::frequencies(tiles_.side) * 2 * plan.out[0] * plan.in[0]),
        product_(4 * plan.out[0] * plan.in[0]) {}

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool, Rng&) override {
    images_ = batch * tiles_.rows * tiles_.columns;
    const std::size_t frequencies = Fourier<T>::frequencies(tiles_.side);
    x_.resize(frequencies * 2 * inputs() * images_);
    y_.resize(frequencies * 2 * outputs() * images_);
    load_weights(parameters + plan_.weight);
    load_inputs(in);
    for (std::size_t f = 0; f < frequencies; ++f) {
      multiply<T>({2 * outputs(), images_, 2 * inputs()}, {matrix(f), 2 * inputs()},
                  {x_.data() + f * 2 * inputs() * images_, images_},
                  y_.data() + f * 2 * outputs() * images_, images_);
    }
    store_outputs(parameters + plan_.bias, out);
  }

  /// Computes the gradient of the inputs: dX[f] = W[f]^T dY[f].
  void backward_input(const T*, const T*, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    load_gradient(d_out);
    if (d_in == nullptr) return;
    const std::size_t frequencies = Fourier<T>::frequencies(tiles_.side);
    d_x_.resize(x_.size());
    for (std::size_t f = 0; f < frequencies; ++f) {
      multiply<T>({2 * inputs(), images_, 2 * outputs()}, {matrix(f), 2 * inputs(), true},
                  {y_.data() + f * 2 * outputs() * images_, images_},
                  d_x_.data() + f * 2 * inputs() * images_, images_);
    }
    std::fill_n(d_in, batch * elements(plan_.in), T(0));
    fourier_.inverse(inputs() * images_, tiles_.side, 1, d_x_.data(),
                     [&](std::size_t image, std::size_t y, const T* from) {
                       const Row row = input_row(image, y);
                       for (std::size_t x = row.begin; x < row.end; ++x) {
                         d_in[row.at + x] += from[x * lanes];
                       }
                     });
  }

  /// Computes the gradient of the weights: dW[f] = conj(dY[f]) X[f]^T, summed over all images.
  void backward_weight(const T*, const T*, const T*, const T* d_out, T* d_parameters,
                       std::size_t batch) override {
    const std::size_t size = outputs() * inputs();
    const std::size_t wide = 2 * inputs();
    for (std::size_t f = 0; f < Fourier<T>::frequencies(tiles_.side); ++f) {
      multiply<T>({2 * outputs(), wide, images_},
                  {y_.data() + f * 2 * outputs() * images_, images_},
                  {x_.data() + f * wide * images_, images_, true}, product_.data(), wide);
      T* re = w_.data() + f * 2 * size;
      for (std::size_t o = 0; o < outputs(); ++o) {
        const T* of_re = product_.data() + o * wide;
        const T* of_im = product_.data() + (outputs() + o) * wide;
        for (std::size_t c = 0; c < inputs(); ++c) {
          re[o * inputs() + c] = of_re[c] + of_im[inputs() + c];
          re[size + o * inputs() + c] = of_re[inputs() + c] - of_im[c];
        }
      }
    }
    const std::size_t kernel = plan_.spec.kernel;
    T* dw = d_parameters + plan_.weight;
    fourier_.inverse(size, kernel, 1, w_.data(),
                     [&](std::size_t image, std::size_t y, const T* from) {
                       T* to = dw + (image * kernel + y) * kernel;
                       for (std::size_t x = 0; x < kernel; ++x) to[x] = from[x * lanes];
                     });
    sum_channels(d_out, batch, outputs(), plan_.out[1] * plan_.out[2], d_parameters + plan_.bias);
  }

 private:
  static constexpr std::size_t lanes = Fourier<T>::lanes;

  std::size_t inputs() const { return plan_.in[0]; }
  std::size_t outputs() const { return plan_.out[0]; }

  /// A row of a tile. Columns [begin, end) of the row lie in the layer's inputs, from index `at`
  /// on.
  struct Row {
    std::ptrdiff_t at = 0;
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  /// A tile of one channel's images: the channel, the sample, and the coordinates of the tile's
  /// first output.
  struct Tile {
    std::size_t channel, sample, y, x;
  };
  Tile tile(std::size_t image) const {
    const std::size_t within = image % images_;
    const std::size_t each = tiles_.rows * tiles_.columns;
    return {image / images_, within / each, within % each / tiles_.columns * tiles_.outputs,
            within % tiles_.columns * tiles_.outputs};
  }

  Row input_row(std::size_t image, std::size_t y) const {
    const Tile at = tile(image);
    const std::size_t padding = plan_.spec.padding;
    const std::size_t row = at.y * plan_.spec.stride + y;
    const std::size_t column = at.x * plan_.spec.stride;
    if (row < padding || row - padding >= plan_.in[1]) return {};
    const std::size_t begin = padding - std::min(padding, column);
    const std::size_t end =
        std::min(tiles_.side, plan_.in[2] + padding - std::min(column, plan_.in[2] + padding));
    const std::size_t first = (at.sample * inputs() + at.channel) * plan_.in[1] + row - padding;
    return {static_cast<std::ptrdiff_t>(first * plan_.in[2] + column) -
                static_cast<std::ptrdiff_t>(padding),
            begin, std::max(begin, end)};
  }

  /// Calls visit(index of the output, its column in the tile) for each output in one row of a tile.
  template <class Visit>
  void each_output(std::size_t image, std::size_t row, Visit visit) const {
    const Tile at = tile(image);
    const std::size_t y = at.y + row;
    if (y >= plan_.out[1]) return;
    const std::size_t first =
        ((at.sample * outputs() + at.channel) * plan_.out[1] + y) * plan_.out[2];
    const std::size_t end = std::min(at.x + tiles_.outputs, plan_.out[2]);
    for (std::size_t x = at.x; x < end; ++x) visit(first + x, (x - at.x) * plan_.spec.stride);
  }

  void load_weights(const T* w) {
    const std::size_t kernel = plan_.spec.kernel;
    fourier_.forward(
        outputs() * inputs(), kernel,
        [&](std::size_t image, std::size_t y, T* to) {
          const T* from = w + (image * kernel + y) * kernel;
          for (std::size_t x = 0; x < kernel; ++x) to[x * lanes] = from[x];
        },
        w_.data());
  }

  void load_inputs(const T* in) {
    fourier_.forward(
        inputs() * images_, tiles_.side,
        [&](std::size_t image, std::size_t y, T* to) {
          const Row row = input_row(image, y);
          for (std::size_t x = row.begin; x < row.end; ++x) to[x * lanes] = in[row.at + x];
        },
        x_.data());
  }

  void load_gradient(const T* d_out) {
    const std::size_t stride = plan_.spec.stride;
    fourier_.forward(
        outputs() * images_, (tiles_.outputs - 1) * stride + 1,
        [&](std::size_t image, std::size_t y, T* to) {
          if (y % stride != 0) return;
          each_output(image, y / stride,
                      [&](std::size_t from, std::size_t x) { to[x * lanes] = d_out[from]; });
        },
        y_.data());
  }

  void store_outputs(const T* biases, T* out) {
    const std::size_t stride = plan_.spec.stride;
    fourier_.inverse(outputs() * images_, (tiles_.outputs - 1) * stride + 1, stride, y_.data(),
                     [&](std::size_t image, std::size_t y, const T* from) {
                       const T bias = biases[image / images_];
                       each_output(image, y / stride, [&](std::size_t to, std::size_t x) {
                         out[to] = from[x * lanes] + bias;
                       });
                     });
  }

  /// Returns conj(W[f]) as a real matrix, (2 O, 2 C). It multiplies a matrix that has the real
  /// parts above the imaginary parts.
  const T* matrix(std::size_t f) {
    const std::size_t size = outputs() * inputs();
    const T* re = w_.data() + f * 2 * size;
    const T* im = re + size;
    T* upper = product_.data();
    T* lower = upper + 2 * size;
    for (std::size_t o = 0; o < outputs(); ++o) {
      for (std::size_t c = 0; c < inputs(); ++c) {
        const std::size_t at = o * inputs() + c;
        upper[2 * o * inputs() + c] = re[at];
        upper[(2 * o + 1) * inputs() + c] = im[at];
        lower[2 * o * inputs() + c] = -im[at];
        lower[(2 * o + 1) * inputs() + c] = re[at];
      }
    }
    return upper;
  }

  LayerPlan plan_;
  FftTiles tiles_;
  Fourier<T> fourier_;
  std::size_t images_ = 0;  ///< Number of tiles of one channel: B T.
  std::vector<T> w_;        ///< W, or dW in the backward pass.
  std::vector<T> x_;        ///< X
  std::vector<T> y_;        ///< Y, or dY in the backward pass.
  std::vector<T> d_x_;      ///< dX
  std::vector<T> product_;  ///< A matrix or a product at one frequency.
};

}  // namespace

LayerFamily fft_convolution_layers() {
  return {make_one<FftConvolution, float>, make_one<FftConvolution, double>};
}

}  // namespace gv
