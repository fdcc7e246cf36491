// Fourier transforms in two dimensions of many square images at once.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace gv {

/// Transforms of real images with one side S. Images are processed in blocks: the values of all
/// images at one place are adjacent, so that each step of the transform is a loop over them. Two
/// real images form the real and the imaginary part of one complex image, and their spectra are
/// separated by symmetry. T is float or double.
template <class T>
class Fourier {
 public:
  /// Complex images in a block: the distance between neighbouring values of an image's row.
  static constexpr std::size_t lanes = 16;

  /// `side` has no prime factor above 3.
  explicit Fourier(std::size_t side);

  /// The smallest side for images of at least `size` rows and columns.
  static std::size_t side_for(std::size_t size);
  /// Frequencies that determine a real image's spectrum: S (S / 2 + 1).
  static std::size_t frequencies(std::size_t side) { return side * (side / 2 + 1); }

  /// Writes row `y` of an image, which is zero beforehand: value x goes to `to[x * lanes]`.
  using Load = std::function<void(std::size_t image, std::size_t y, T* to)>;
  /// Takes row `y` of an image: value x is `from[x * lanes]`.
  using Store = std::function<void(std::size_t image, std::size_t y, const T* from)>;

  /// The spectra of `images` images, (frequencies, 2, images): real parts and then imaginary parts.
  /// Rows from `rows` on are zero and not asked for.
  void forward(std::size_t images, std::size_t rows, const Load& load, T* spectra);

  /// Computes the images with these spectra. Only every `stride`-th of the first `rows` rows is
  /// stored.
  void inverse(std::size_t images, std::size_t rows, std::size_t stride, const T* spectra,
               const Store& store);

 private:
  /// Complex numbers as two arrays.
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
