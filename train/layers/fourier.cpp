// Stockham's transform with factors 4, 2 and 3. Each pass reads one array and writes another, and
// the result is in natural order.
#include "train/layers/fourier.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/check.hpp"
#include "base/wide.hpp"

#define GV_BODY [[gnu::always_inline]] inline

namespace gv {
namespace {

/// One pass of a transform over n = radix * groups elements, each of which is `width` numbers.
/// Group p uses root number p * `step` of the whole transform.
template <class T>
struct FourierPass {
  std::size_t radix, groups, width, step;
  const T* roots;
  const T *re, *im;    ///< The array that the pass reads.
  T *out_re, *out_im;  ///< The array that the pass writes.
};

/// Writes the complex number `re` + i `im`, times `root`, to `out_re` and `out_im`.
template <class T>
GV_BODY void put_turned(T re, T im, const T* root, T& out_re, T& out_im) {
  out_re = re * root[0] - im * root[1];
  out_im = re * root[1] + im * root[0];
}

template <class T>
GV_BODY void pass_by_2(const FourierPass<T>& p, std::size_t group, const T* w) {
  const std::size_t half = p.groups * p.width;
  const T* __restrict a = p.re + group * p.width;
  const T* __restrict b = p.im + group * p.width;
  T* __restrict x = p.out_re + 2 * group * p.width;
  T* __restrict y = p.out_im + 2 * group * p.width;
  for (std::size_t i = 0; i < p.width; ++i) {
    x[i] = a[i] + a[half + i];
    y[i] = b[i] + b[half + i];
    put_turned(a[i] - a[half + i], b[i] - b[half + i], w, x[p.width + i], y[p.width + i]);
  }
}

template <class T>
GV_BODY void pass_by_3(const FourierPass<T>& p, std::size_t group, const T* w, const T* w2) {
  constexpr T sine = std::numbers::sqrt3_v<T> / 2;
  const std::size_t third = p.groups * p.width;
  const T* __restrict a = p.re + group * p.width;
  const T* __restrict b = p.im + group * p.width;
  T* __restrict x = p.out_re + 3 * group * p.width;
  T* __restrict y = p.out_im + 3 * group * p.width;
  for (std::size_t i = 0; i < p.width; ++i) {
    const T sum_re = a[third + i] + a[2 * third + i];
    const T sum_im = b[third + i] + b[2 * third + i];
    const T turned_re = sine * (b[third + i] - b[2 * third + i]);
    const T turned_im = sine * (a[2 * third + i] - a[third + i]);
    const T rest_re = a[i] - sum_re / 2;
    const T rest_im = b[i] - sum_im / 2;
    x[i] = a[i] + sum_re;
    y[i] = b[i] + sum_im;
    put_turned(rest_re + turned_re, rest_im + turned_im, w, x[p.width + i], y[p.width + i]);
    put_turned(rest_re - turned_re, rest_im - turned_im, w2, x[2 * p.width + i],
               y[2 * p.width + i]);
  }
}

template <class T>
GV_BODY void pass_by_4(const FourierPass<T>& p, std::size_t group, const T* w, const T* w2,
                       const T* w3) {
  const std::size_t part = p.groups * p.width;
  const T* __restrict a = p.re + group * p.width;
  const T* __restrict b = p.im + group * p.width;
  T* __restrict x = p.out_re + 4 * group * p.width;
  T* __restrict y = p.out_im + 4 * group * p.width;
  for (std::size_t i = 0; i < p.width; ++i) {
    const T even_re = a[i] + a[2 * part + i];
    const T even_im = b[i] + b[2 * part + i];
    const T apart_re = a[i] - a[2 * part + i];
    const T apart_im = b[i] - b[2 * part + i];
    const T odd_re = a[part + i] + a[3 * part + i];
    const T odd_im = b[part + i] + b[3 * part + i];
    const T turned_re = b[part + i] - b[3 * part + i];
    const T turned_im = a[3 * part + i] - a[part + i];
    x[i] = even_re + odd_re;
    y[i] = even_im + odd_im;
    put_turned(apart_re + turned_re, apart_im + turned_im, w, x[p.width + i], y[p.width + i]);
    put_turned(even_re - odd_re, even_im - odd_im, w2, x[2 * p.width + i], y[2 * p.width + i]);
    put_turned(apart_re - turned_re, apart_im - turned_im, w3, x[3 * p.width + i],
               y[3 * p.width + i]);
  }
}

template <class T>
GV_BODY void pass_body(const FourierPass<T>& p) {
  for (std::size_t group = 0; group < p.groups; ++group) {
    const T* w = p.roots + 2 * group * p.step;
    const T* w2 = p.roots + 4 * group * p.step;
    if (p.radix == 2) pass_by_2(p, group, w);
    if (p.radix == 3) pass_by_3(p, group, w, w2);
    if (p.radix == 4) pass_by_4(p, group, w, w2, p.roots + 6 * group * p.step);
  }
}

GV_WIDE void run_pass(const FourierPass<float>& p) { pass_body(p); }
void run_pass(const FourierPass<double>& p) { pass_body(p); }

/// The complex values of a block at one frequency and at the opposite one. The real parts of the
/// complex images are the first `count` real images, and the imaginary parts are the next
/// `count_im`.
template <class T>
struct FourierPair {
  T *re, *im, *other_re, *other_im;
  std::size_t count, count_im;
};

/// Separates the spectra A and B of the real and imaginary parts from Z, the spectrum of complex
/// images: A = (Z(f) + conj Z(-f)) / 2 and B = (Z(f) - conj Z(-f)) / 2i.
template <class T>
GV_BODY void take_apart_body(const FourierPair<T>& z, std::size_t lanes, T* __restrict re,
                             T* __restrict im) {
  for (std::size_t i = 0; i < z.count; ++i) {
    re[i] = (z.re[i] + z.other_re[i]) / 2;
    im[i] = (z.im[i] - z.other_im[i]) / 2;
  }
  for (std::size_t i = 0; i < z.count_im; ++i) {
    re[lanes + i] = (z.im[i] + z.other_im[i]) / 2;
    im[lanes + i] = (z.other_re[i] - z.re[i]) / 2;
  }
}
GV_WIDE void take_apart(const FourierPair<float>& z, std::size_t lanes, float* re, float* im) {
  take_apart_body(z, lanes, re, im);
}
void take_apart(const FourierPair<double>& z, std::size_t lanes, double* re, double* im) {
  take_apart_body(z, lanes, re, im);
}

/// Inverts take_apart_body(): Z(f) = A + i B, and Z(-f) = conj A + i conj B, both times `scale`.
template <class T>
GV_BODY void put_together_body(const FourierPair<T>& z, std::size_t lanes, T scale,
                               const T* __restrict re, const T* __restrict im) {
  for (std::size_t i = 0; i < z.count; ++i) {
    const bool has_im = i < z.count_im;
    const T b_re = has_im ? re[lanes + i] : T(0);
    const T b_im = has_im ? im[lanes + i] : T(0);
    z.re[i] = scale * (re[i] - b_im);
    z.im[i] = scale * (im[i] + b_re);
    z.other_re[i] = scale * (re[i] + b_im);
    z.other_im[i] = scale * (b_re - im[i]);
  }
}
GV_WIDE void put_together(const FourierPair<float>& z, std::size_t lanes, float scale,
                          const float* re, const float* im) {
  put_together_body(z, lanes, scale, re, im);
}
void put_together(const FourierPair<double>& z, std::size_t lanes, double scale, const double* re,
                  const double* im) {
  put_together_body(z, lanes, scale, re, im);
}

}  // namespace

template <class T>
Fourier<T>::Fourier(std::size_t side)
    : side_(side), block_(2 * side * side * lanes), scratch_(2 * side * side * lanes) {
  check(side > 0 && side_for(side) == side, "the side of a transform has factors of 2 and 3");
  for (std::size_t i = 0; i < side; ++i) {
    const double angle = -2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(side);
    roots_.push_back(static_cast<T>(std::cos(angle)));
    roots_.push_back(static_cast<T>(std::sin(angle)));
  }
}

template <class T>
std::size_t Fourier<T>::side_for(std::size_t size) {
  std::size_t best = 1;
  while (best < size) best *= 2;
  for (std::size_t threes = 3; threes < best; threes *= 3) {
    std::size_t side = threes;
    while (side < size) side *= 2;
    best = std::min(best, side);
  }
  return best;
}

/// Transforms S elements of `width` numbers each. Returns `data` or `scratch`, whichever holds the
/// result.
template <class T>
auto Fourier<T>::transform(Values data, Values scratch, std::size_t width) const -> Values {
  for (std::size_t n = side_; n > 1;) {
    const std::size_t radix = n % 4 == 0 ? 4 : n % 2 == 0 ? 2 : 3;
    run_pass(FourierPass<T>{.radix = radix,
                            .groups = n / radix,
                            .width = width,
                            .step = side_ / n,
                            .roots = roots_.data(),
                            .re = data.re,
                            .im = data.im,
                            .out_re = scratch.re,
                            .out_im = scratch.im});
    std::swap(data, scratch);
    n /= radix;
    width *= radix;
  }
  return data;
}

template <class T>
void Fourier<T>::forward(std::size_t images, std::size_t rows, const Load& load, T* spectra) {
  const std::size_t row_size = side_ * lanes;
  for (std::size_t first = 0; first < images; first += 2 * lanes) {
    const std::size_t count = std::min(2 * lanes, images - first);
    for (std::size_t y = 0; y < side_; ++y) {
      const Values row = at(block_, y * row_size);
      std::fill_n(row.re, row_size, T(0));
      std::fill_n(row.im, row_size, T(0));
      if (y >= rows) continue;
      for (std::size_t i = 0; i < count; ++i) {
        load(first + i, y, i < lanes ? row.re + i : row.im + i - lanes);
      }
      const Values done = transform(row, at(scratch_, 0), lanes);
      if (done.re == row.re) continue;
      std::copy_n(done.re, row_size, row.re);
      std::copy_n(done.im, row_size, row.im);
    }
    const Values all = transform(at(block_, 0), at(scratch_, 0), row_size);
    T* to = spectra + first;
    for (std::size_t y = 0; y < side_; ++y) {
      for (std::size_t x = 0; x <= side_ / 2; ++x, to += 2 * images) {
        const std::size_t place = (y * side_ + x) * lanes;
        const std::size_t other = ((side_ - y) % side_ * side_ + (side_ - x) % side_) * lanes;
        take_apart(FourierPair<T>{all.re + place, all.im + place, all.re + other, all.im + other,
                                  std::min(lanes, count), count - std::min(lanes, count)},
                   lanes, to, to + images);
      }
    }
  }
}

/// Runs the transform with real and imaginary parts swapped, which inverts it up to a factor.
template <class T>
void Fourier<T>::inverse(std::size_t images, std::size_t rows, std::size_t stride, const T* spectra,
                         const Store& store) {
  const std::size_t row_size = side_ * lanes;
  const T scale = T(1) / static_cast<T>(side_ * side_);
  for (std::size_t first = 0; first < images; first += 2 * lanes) {
    const std::size_t count = std::min(2 * lanes, images - first);
    const Values block = at(block_, 0);
    const T* from = spectra + first;
    for (std::size_t y = 0; y < side_; ++y) {
      for (std::size_t x = 0; x <= side_ / 2; ++x, from += 2 * images) {
        const std::size_t place = (y * side_ + x) * lanes;
        const std::size_t other = ((side_ - y) % side_ * side_ + (side_ - x) % side_) * lanes;
        put_together(
            FourierPair<T>{block.re + place, block.im + place, block.re + other, block.im + other,
                           std::min(lanes, count), count - std::min(lanes, count)},
            lanes, scale, from, from + images);
      }
    }
    const Values scratch = at(scratch_, 0);
    const Values all = transform({block.im, block.re}, {scratch.im, scratch.re}, row_size);
    const Values free = all.im == block.re ? scratch : block;
    for (std::size_t y = 0; y < rows; y += stride) {
      const Values row{all.re + y * row_size, all.im + y * row_size};
      const Values done = transform(row, {free.im, free.re}, lanes);
      for (std::size_t i = 0; i < count; ++i) {
        store(first + i, y, i < lanes ? done.im + i : done.re + i - lanes);
      }
    }
  }
}

template class Fourier<float>;
template class Fourier<double>;

}  // namespace gv
