// The compressor that sends matrices as low-rank factors: PowerSGD.
#include <optional>

#include "consensus/compression/compressors.hpp"
#include "consensus/compression/power_sgd.hpp"

namespace gv {
namespace {

constexpr const char* unsent_name = "unsent";

class PowerSgdCompressor final : public GradientCompressor {
 public:
  PowerSgdCompressor(Codec codec, FactorShape shape) : codec_(codec), shape_(std::move(shape)) {}

  std::unique_ptr<GradientCompressor> blank() const override {
    return std::make_unique<PowerSgdCompressor>(codec_, shape_);
  }
  WireFormat wire() const override { return {.codec = codec_}; }
  std::size_t longest() const override { return shape_.largest(); }
  /// All peers of a generation begin with the same basis, so factors from another generation are
  /// useless.
  bool depends_on_generation() const override { return true; }
  CompressionPlan plan(const GradientSum& sum) const override {
    return {.sum = sum,
            .elements = shape_.size(sum.number),
            .parts = {},
            .factored = {},
            .in_place = false,
            .piecewise = false};
  }

  std::span<const float> decode(const CompressionPlan& plan, std::span<const float> sum) override {
    decoded_.resize(shape_.elements);
    factors().decode(sum.first(plan.elements), decoded_);
    return decoded_;
  }

  void clear() override {
    if (factors_) factors_->clear();
  }

  void restore(const std::string& name, std::vector<float> values) override {
    if (name == unsent_name) factors().restore(std::move(values));
  }

 private:
  PowerSgd& factors() {
    if (!factors_) factors_.emplace(shape_);
    return *factors_;
  }

  bool write(const CompressionPlan& plan, std::span<float> gradient, std::span<float> out,
             Rng) override {
    factors().encode(gradient, {plan.sum.generation, plan.sum.number}, out);
    return is_writable(codec_, out);
  }

  Named kept() const override {
    if (!factors_ || factors_->memory().empty()) return {};
    return {{unsent_name, {factors_->memory().begin(), factors_->memory().end()}}};
  }

  Codec codec_;
  FactorShape shape_;
  std::optional<PowerSgd> factors_;
  std::vector<float> decoded_;
};

}  // namespace

std::unique_ptr<GradientCompressor> power_sgd_compressor(const CompressorOptions& options,
                                                         std::size_t elements,
                                                         const GradientPlaces& places) {
  return std::make_unique<PowerSgdCompressor>(
      options.codec, factor_shape(elements, places.matrices, options.rank));
}

}  // namespace gv
