// Fourier transforms of many square images at once, in two dimensions.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace gv {

/// Transforms of square real images that all have the side S. Images are processed in blocks. In a
/// block, the values of all images at one place are adjacent, so that each pass of the transform is
/// a loop over images. Two real images form the real and the imaginary part of one complex image,
/// and their spectra are separated by symmetry. T is float or double.
template <class T>
class Fourier {
 public:
  /// Complex images in a block. Neighbouring values in a row of an image are this far apart.
  static constexpr std::size_t lanes = 16;

  /// `side` must have no prime factor above 3.
  explicit Fourier(std::size_t side);

  /// The smallest allowed side that is not below `size`.
  static std::size_t side_for(std::size_t size);
  /// Number of frequencies that determine a real image's spectrum: S (S / 2 + 1), where S is
  /// `side`.
  static std::size_t frequencies(std::size_t side) { return side * (side / 2 + 1); }

  /// Writes row `y` of an image: value x goes to `to[x * lanes]`. The row holds zeros beforehand.
  using Load = std::function<void(std::size_t image, std::size_t y, T* to)>;
  /// Receives row `y` of an image: value x is `from[x * lanes]`.
  using Store = std::function<void(std::size_t image, std::size_t y, const T* from)>;

  /// Writes the spectra of `images` images, (frequencies, 2, images), to `spectra`: real parts and
  /// then imaginary parts. Rows of an image from `rows` on are zero and are not loaded.
  void forward(std::size_t images, std::size_t rows, const Load& load, T* spectra);

  /// Computes the images with these spectra. Only every `stride`-th of the first `rows` rows is
  /// stored.
  void inverse(std::size_t images, std::size_t rows, std::size_t stride, const T* spectra,
               const Store& store);

 private:
  /// Complex numbers, with real and imaginary parts in separate arrays.
  struct Values {
    T* re = nullptr;
    T* im = nullptr;
  };
  Values at(std::vector<T>& values, std::size_t offset) {
    return {values.data() + offset, values.data() + values.size() / 2 + offset};
  }
  Values transform(Values data, Values scratch, std::size_t width) const;

  std::size_t side_;
  std::vector<T> roots_;    ///< (S, 2): the powers of e^(-2 pi i / S).
  std::vector<T> block_;    ///< (2, S, S, lanes)
  std::vector<T> scratch_;  ///< (2, S, S, lanes)
};

}  // namespace gv
