// The base of compressors whose encoded gradients cannot be summed: each peer receives all of them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "consensus/compression/gradient_compressor.hpp"

namespace gv {

/// Every peer receives the codes (encoded gradients) of all peers and sums them itself, in the
/// order of ranks. So all peers get the same bits, the sum adds no error, and there is no
/// aggregator that could be lost. The price is that each peer passes on the codes of all others.
/// Complete gradients are sent if the codes of all peers together would be longer than a gradient,
/// or if there is only one peer.
class GatheredCompressor : public GradientCompressor {
 public:
  /// A gradient of `elements` values is written as `code` floats.
  GatheredCompressor(std::size_t elements, std::size_t code) : elements_(elements), code_(code) {}

  WireFormat wire() const override { return {}; }
  std::size_t longest() const override { return elements_; }
  /// True, because the position of our part depends on our rank, which each generation assigns.
  bool depends_on_generation() const override { return true; }
  CompressionPlan plan(const GradientSum& sum) const override;
  std::span<const float> decode(const CompressionPlan& plan, std::span<const float> sum) override;

 protected:
  std::size_t elements() const { return elements_; }
  /// True if the plan sends whole gradients.
  static bool is_whole(const CompressionPlan& plan) { return plan.parts.empty(); }
  /// The memory into which our own code is written.
  static float* own_part(const CompressionPlan& plan, std::span<float> out) {
    return out.subspan(plan.parts[plan.sum.rank].begin).data();
  }

 private:
  /// Adds `weight` times the values of a code to `sum`. The code may come from a hostile peer.
  virtual void add(const float* code, float weight, std::span<float> sum) const = 0;

  std::size_t elements_;
  std::size_t code_;
  std::vector<float> mean_;
};

}  // namespace gv
