// The matrix product used by layers on sequences.
#pragma once

#include <cstddef>

namespace gv {

/// A matrix in row-major memory, or its transpose: rows begin `stride` elements apart.
template <class T>
struct Factor {
  const T* data = nullptr;
  std::size_t stride = 0;
  bool transposed = false;
};

/// Sizes of C (rows, columns) = A (rows, inner) B (inner, columns).
struct ProductSize {
  std::size_t rows = 0, columns = 0, inner = 0;
};

/// Overwrites `c`, whose rows begin `stride` elements apart, with `scale` times A B. In float by
/// oneDNN where there is oneDNN, on one thread; else by Eigen. Signals must be held back meanwhile
/// (SignalsHeld). T is float or double.
template <class T>
void multiply(const ProductSize& size, const Factor<T>& a, const Factor<T>& b, T* c,
              std::size_t stride, T scale = 1);

/// oneDNN's product. False, with nothing done, in a build without oneDNN.
bool multiply_by_onednn(const ProductSize& size, const Factor<float>& a, const Factor<float>& b,
                        float* c, std::size_t stride, float scale);

}  // namespace gv
