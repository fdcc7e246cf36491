// Gives each rank its own range, and averages the codes in all ranges.
#include "consensus/compression/gathered_compressor.hpp"

namespace gv {

CompressionPlan GatheredCompressor::plan(const GradientSum& sum) const {
  CompressionPlan plan{.sum = sum,
                       .elements = code_ * sum.shares.size(),
                       .parts = {},
                       .factored = {},
                       .in_place = false,
                       .piecewise = false};
  if (sum.shares.size() == 1 || plan.elements > elements_) {
    plan.elements = elements_;
    plan.in_place = true;
    return plan;
  }
  for (std::size_t rank = 0; rank < sum.shares.size(); ++rank) {
    plan.parts.push_back({rank * code_, (rank + 1) * code_});
  }
  return plan;
}

std::span<const float> GatheredCompressor::decode(const CompressionPlan& plan,
                                                  std::span<const float> sum) {
  if (is_whole(plan)) return sum;
  double samples = 0;
  for (const std::uint32_t share : plan.sum.shares) samples += share;
  mean_.assign(elements_, 0);
  for (std::size_t rank = 0; rank < plan.parts.size(); ++rank) {
    const auto weight = static_cast<float>(plan.sum.shares[rank] / samples);
    add(sum.subspan(plan.parts[rank].begin).data(), weight, mean_);
  }
  return mean_;
}

}  // namespace gv
