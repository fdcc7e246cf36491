// Matrix products with oneDNN's sgemm, and the features that oneDNN has on this processor.
#include <omp.h>

#include <dnnl.hpp>

#include "base/check.hpp"
#include "train/layers/network.hpp"
#include "train/layers/onednn_steps.hpp"
#include "train/layers/product.hpp"

namespace gv {
namespace {

bool has_winograd() {
  using dnnl::memory;
  const auto any = [](const memory::dims& dims) {
    return memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
  };
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  try {
    const dnnl::convolution_forward::primitive_desc description(
        {dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_winograd,
         any({1, 16, 8, 8}), any({16, 16, 3, 3}), any({1, 16, 8, 8}), memory::dims{1, 1},
         memory::dims{1, 1}, memory::dims{1, 1}},
        engine);
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

/// True if the processor has instructions for bfloat16. Values of cpu_isa are sets of bits.
bool has_bf16() {
  constexpr int needed = dnnl_cpu_isa_avx512_core_bf16;
  return (static_cast<int>(dnnl_get_effective_cpu_isa()) & needed) == needed;
}

}  // namespace

const OnednnAbilities& onednn_abilities() {
  static const OnednnAbilities abilities{
      .is_built_in = true, .winograd = has_winograd(), .bf16 = has_bf16()};
  return abilities;
}

/// Chooses who rounds a layer's factors. We round for convolutions with one input channel, because
/// oneDNN's kernels for them are slower in bfloat16 than in float.
Rounding rounding_of(const LayerPlan& plan) {
  if (plan.precision != Precision::bf16) return Rounding::none;
  const bool is_slow = plan.spec.kind == LayerKind::conv2d && plan.in[0] == 1;
  return is_slow || !onednn_abilities().bf16 ? Rounding::by_us : Rounding::by_onednn;
}

bool multiply_by_onednn(const ProductSize& size, const Factor<float>& a, const Factor<float>& b,
                        float* c, std::size_t stride, float scale, bool adds) {
  const auto dim = [](std::size_t value) { return static_cast<dnnl_dim_t>(value); };
  omp_set_num_threads(1);
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', dim(size.rows),
                 dim(size.columns), dim(size.inner), scale, a.data, dim(a.stride), b.data,
                 dim(b.stride), adds ? 1.0f : 0.0f, c, dim(stride));
  check(status == dnnl_success, "a product has sound sizes");
  return true;
}

}  // namespace gv
