// Matrix products with oneDNN's sgemm.
#include <dnnl.h>
#include <omp.h>

#include "base/check.hpp"
#include "train/layers/product.hpp"

namespace gv {

bool multiply_by_onednn(const ProductSize& size, const Factor<float>& a, const Factor<float>& b,
                        float* c, std::size_t stride, float scale) {
  const auto dim = [](std::size_t value) { return static_cast<dnnl_dim_t>(value); };
  omp_set_num_threads(1);
  const dnnl_status_t status = dnnl_sgemm(
      a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', dim(size.rows), dim(size.columns),
      dim(size.inner), scale, a.data, dim(a.stride), b.data, dim(b.stride), 0.0f, c, dim(stride));
  check(status == dnnl_success, "a product has sound sizes");
  return true;
}

}  // namespace gv
