// The compressor that sends the two factors of dense layers' gradients.
#include "consensus/compression/compressors.hpp"
#include "consensus/compression/sufficient_factors.hpp"

namespace gv {
namespace {

class SufficientFactorsCompressor final : public GradientCompressor {
 public:
  SufficientFactorsCompressor(Codec codec, std::size_t elements, std::vector<DensePlace> layers)
      : codec_(codec), elements_(elements), layers_(std::move(layers)) {}

  std::unique_ptr<GradientCompressor> blank() const override {
    return std::make_unique<SufficientFactorsCompressor>(codec_, elements_, layers_);
  }
  WireFormat wire() const override { return {.codec = codec_}; }
  std::size_t longest() const override { return elements_; }
  /// A generation with different shares may send other factors, and put ours at another offset.
  bool depends_on_generation() const override { return true; }
  CompressionPlan plan(const GradientSum& sum) const override {
    const SufficientFactors factors = factors_in(sum);
    return {.sum = sum,
            .elements = factors.size(),
            .parts = factors.parts(),
            .factored = factors.weights(),
            .in_place = false,
            .piecewise = false};
  }

  std::span<const float> decode(const CompressionPlan& plan, std::span<const float> sum) override {
    decoded_.resize(elements_);
    factors_in(plan.sum).unpack(sum.first(plan.elements), decoded_);
    return decoded_;
  }

 private:
  SufficientFactors factors_in(const GradientSum& sum) const {
    return {elements_, layers_, sum.shares};
  }

  bool write(const CompressionPlan& plan, std::span<float> gradient, std::span<float> out,
             Rng) override {
    if (!is_writable(codec_, gradient)) return false;
    factors_in(plan.sum).pack(gradient, plan.sum.rank, out);
    return true;
  }

  Codec codec_;
  std::size_t elements_;
  std::vector<DensePlace> layers_;
  std::vector<float> decoded_;
};

}  // namespace

std::unique_ptr<GradientCompressor> sufficient_factors_compressor(const CompressorOptions& options,
                                                                  std::size_t elements,
                                                                  const GradientPlaces& places) {
  return std::make_unique<SufficientFactorsCompressor>(options.codec, elements, places.dense);
}

}  // namespace gv
