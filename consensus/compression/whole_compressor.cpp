// The compressor that sends whole gradients, in a codec of choice.
#include "base/magnitude.hpp"
#include "consensus/compression/compressors.hpp"

namespace gv {
namespace {

class WholeCompressor final : public GradientCompressor {
 public:
  WholeCompressor(Codec codec, std::size_t elements) : codec_(codec), elements_(elements) {}

  std::unique_ptr<GradientCompressor> blank() const override {
    return std::make_unique<WholeCompressor>(codec_, elements_);
  }
  WireFormat wire() const override { return {.codec = codec_}; }
  std::size_t longest() const override { return elements_; }
  CompressionPlan plan(const GradientSum& sum) const override {
    return {.sum = sum, .elements = elements_, .parts = {}, .factored = {}};
  }
  std::span<const float> decode(const CompressionPlan&, std::span<const float> sum) override {
    return sum;
  }

 private:
  bool write(const CompressionPlan&, std::span<float> gradient, std::span<float>, Rng) override {
    return largest_writable(codec_) >= largest_gradient || is_writable(codec_, gradient);
  }

  Codec codec_;
  std::size_t elements_;
};

}  // namespace

std::unique_ptr<GradientCompressor> whole_compressor(const CompressorOptions& options,
                                                     std::size_t elements, const GradientPlaces&) {
  return std::make_unique<WholeCompressor>(options.codec, elements);
}

}  // namespace gv
