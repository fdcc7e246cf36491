// Matrix products with Eigen, where oneDNN does not compute them.
#include "train/layers/product.hpp"

#include <Eigen/Core>
#include <type_traits>

namespace gv {
namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Stride = Eigen::OuterStride<>;

Eigen::Index index(std::size_t value) { return static_cast<Eigen::Index>(value); }

/// The matrix as stored in memory, before any transposition.
template <class T>
auto stored(const Factor<T>& factor, std::size_t rows, std::size_t columns) {
  if (factor.transposed) std::swap(rows, columns);
  return Eigen::Map<const Matrix<T>, 0, Stride>(factor.data, index(rows), index(columns),
                                                Stride(index(factor.stride)));
}

}  // namespace

template <class T>
void multiply(const ProductSize& size, const Factor<T>& a, const Factor<T>& b, T* c,
              std::size_t stride, T scale, bool adds) {
  if constexpr (std::is_same_v<T, float>) {
    if (multiply_by_onednn(size, a, b, c, stride, scale, adds)) return;
  }
  const auto x = stored(a, size.rows, size.inner);
  const auto y = stored(b, size.inner, size.columns);
  Eigen::Map<Matrix<T>, 0, Stride> z(c, index(size.rows), index(size.columns),
                                     Stride(index(stride)));
  if (!adds) z.setZero();
  if (!a.transposed && !b.transposed) {
    z.noalias() += scale * x * y;
  } else if (!a.transposed) {
    z.noalias() += scale * x * y.transpose();
  } else if (!b.transposed) {
    z.noalias() += scale * x.transpose() * y;
  } else {
    z.noalias() += scale * x.transpose() * y.transpose();
  }
}

template void multiply(const ProductSize&, const Factor<float>&, const Factor<float>&, float*,
                       std::size_t, float, bool);
template void multiply(const ProductSize&, const Factor<double>&, const Factor<double>&, double*,
                       std::size_t, double, bool);

}  // namespace gv
