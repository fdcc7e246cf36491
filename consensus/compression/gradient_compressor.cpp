// The behaviour that all gradient compressors share.
#include "consensus/compression/gradient_compressor.hpp"

namespace gv {

bool GradientCompressor::encode(const CompressionPlan& plan, std::span<float> gradient,
                                std::span<float> out, Rng draws) {
  if (std::exchange(local_, plan.sum.local) != plan.sum.local) clear();
  return write(plan, gradient, out, draws);
}

}  // namespace gv
