// The behaviour that all gradient compressors share.
#include "consensus/compression/gradient_compressor.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/magnitude.hpp"

namespace gv {

bool GradientCompressor::encode(const CompressionPlan& plan, std::span<float> gradient,
                                std::span<float> out, Rng draws) {
  if (std::exchange(local_, plan.sum.local) != plan.sum.local) clear();
  if (!bound_gradient(gradient)) return false;
  if (!write(plan, gradient, out, draws)) return false;
  // Gathered values may have any bits, so they are not checked.
  const std::size_t gathered = plan.parts.empty() ? 0 : plan.parts.back().end;
  if (!plan.in_place) bound_gradient(out.subspan(gathered));
  return true;
}

bool bound_gradient(std::span<float> values) {
  const float largest = largest_magnitude(values);
  if (largest <= largest_gradient) return true;
  for (float& value : values) {
    if (!std::isfinite(value)) continue;
    value = std::clamp(value, -largest_gradient, largest_gradient);
  }
  return std::isfinite(largest);
}

}  // namespace gv
