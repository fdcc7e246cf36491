// The matrix product of our own layers.
#pragma once

#include <cstddef>

namespace gv {

/// A matrix in row-major memory, or its transpose. Rows are `stride` elements apart.
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

/// Overwrites `c`, whose rows are `stride` elements apart, with `scale` times A B or, if `adds`,
/// adds this product to it. In float, uses oneDNN on one thread if it is available, else Eigen.
/// Signals must be blocked during the call (ComputeScope). T is float or double.
template <class T>
void multiply(const ProductSize& size, const Factor<T>& a, const Factor<T>& b, T* c,
              std::size_t stride, T scale = 1, bool adds = false);

/// Computes the product with oneDNN. Does nothing and returns false in a build without oneDNN.
bool multiply_by_onednn(const ProductSize& size, const Factor<float>& a, const Factor<float>& b,
                        float* c, std::size_t stride, float scale, bool adds);

}  // namespace gv
