// The random-k compressor: sends random values out of every 512, from the same places at all peers.
#include <algorithm>
#include <bitset>

#include "base/magnitude.hpp"
#include "consensus/compression/compressors.hpp"
#include "consensus/compression/error_feedback.hpp"

namespace gv {
namespace {

/// Chooses the values to send in a step.
namespace drawn_values {

constexpr std::size_t bucket = 512;

/// The number of values sent from a bucket of `size` values.
constexpr std::size_t kept_of(std::size_t per_bucket, std::size_t size) {
  return (per_bucket * size + bucket - 1) / bucket;
}

/// Calls `take` with the places of the step's values, in ascending order. In every bucket each set
/// of places is equally likely (Floyd's algorithm: Bentley 1987).
template <class Take>
void each(std::uint64_t step, std::size_t per_bucket, std::size_t elements, Take&& take) {
  Rng rng = Rng(step).fork("values of a gradient");
  for (std::size_t at = 0; at < elements; at += bucket) {
    const std::size_t size = std::min(bucket, elements - at);
    std::bitset<bucket> chosen;
    for (std::size_t last = size - kept_of(per_bucket, size); last < size; ++last) {
      const std::size_t place = rng.below(last + 1);
      chosen.set(chosen[place] ? last : place);
    }
    for (std::size_t i = 0; i < size; ++i) {
      if (chosen[i]) take(at + i);
    }
  }
}

constexpr std::size_t count(std::size_t per_bucket, std::size_t elements) {
  return elements / bucket * per_bucket + kept_of(per_bucket, elements % bucket);
}

}  // namespace drawn_values

/// Random-k with error feedback (Stich, Cordonnier and Jaggi 2018). All peers draw the same places
/// from the number of the step, so the values are summed like any others, and no indices are sent.
/// Values are not scaled up to replace the omitted ones. Omitted values are kept and sent later, so
/// with scaling they would count twice. Descent with rate eta on a curvature h is stable if eta h <
/// 2 delta / (2 - delta), where delta is the fraction that is sent. (A value waits 1 / delta steps
/// on average.)
class RandomKCompressor final : public GradientCompressor {
 public:
  RandomKCompressor(const CompressorOptions& options, std::size_t elements)
      : options_(options), elements_(elements), errors_(elements) {}

  std::unique_ptr<GradientCompressor> blank() const override {
    return std::make_unique<RandomKCompressor>(options_, elements_);
  }
  WireFormat wire() const override { return {.codec = options_.codec}; }
  std::size_t longest() const override { return sent(); }
  CompressionPlan plan(const GradientSum& sum) const override {
    return {.sum = sum,
            .elements = sent(),
            .parts = {},
            .factored = {},
            .in_place = false,
            .piecewise = false};
  }

  std::span<const float> decode(const CompressionPlan& plan, std::span<const float> sum) override {
    errors_.confirm();
    mean_.assign(elements_, 0);
    const float* next = sum.data();
    each_place(plan, [&](std::size_t place) { mean_[place] = *next++; });
    return mean_;
  }
  void clear() override { errors_.clear(); }
  void restore(const std::string& name, std::vector<float> values) override {
    errors_.restore(name, std::move(values));
  }

 private:
  bool write(const CompressionPlan& plan, std::span<float> gradient, std::span<float> out,
             Rng) override {
    errors_.add_to(gradient);
    if (!is_finite(gradient)) return false;
    const std::span<float> errors = errors_.begin(gradient);
    float* next = out.data();
    each_place(plan, [&](std::size_t place) {
      *next++ = gradient[place];
      errors[place] = 0;
    });
    return is_writable(options_.codec, out);
  }
  Named kept() const override { return errors_.kept(); }

  std::size_t sent() const { return drawn_values::count(options_.random_k_per_512, elements_); }
  template <class Take>
  void each_place(const CompressionPlan& plan, Take&& take) const {
    drawn_values::each(plan.sum.step, options_.random_k_per_512, elements_, take);
  }

  CompressorOptions options_;
  std::size_t elements_;
  ErrorFeedback errors_;
  std::vector<float> mean_;
};

}  // namespace

std::unique_ptr<GradientCompressor> random_k_compressor(const CompressorOptions& options,
                                                        std::size_t elements,
                                                        const GradientPlaces&) {
  return std::make_unique<RandomKCompressor>(options, elements);
}

}  // namespace gv
