// A compressor that sends -1, 0 or 1 for each value: TernGrad.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/magnitude.hpp"
#include "consensus/compression/compressors.hpp"
#include "consensus/compression/gathered_compressor.hpp"

namespace gv {
namespace {

/// Packs a vector into floats, with two bits for each value. For every 512 values it stores their
/// scale and their ternary values.
namespace ternary {

constexpr std::size_t bucket = 512;
constexpr std::size_t values_in_word = 16;
/// Values further from zero than this many standard deviations are clipped. The scale is the
/// largest magnitude, so without clipping a few large values would make most others zero.
constexpr double clip_deviations = 2.5;

constexpr std::size_t words(std::size_t values) {
  return (values + values_in_word - 1) / values_in_word;
}

/// Number of floats that hold `values` values.
constexpr std::size_t size(std::size_t values) {
  const std::size_t rest = values % bucket;
  return values / bucket * (1 + words(bucket)) + (rest > 0 ? 1 + words(rest) : 0);
}

float scale_of(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  const double deviation = std::sqrt(squares / static_cast<double>(values.size()));
  return static_cast<float>(
      std::min<double>(clip_deviations * deviation, largest_magnitude(values)));
}

/// Writes each value as its sign with a probability proportional to its magnitude, otherwise as 0.
/// This makes the expected value exact.
void write(std::span<const float> values, float* out, Rng& draws) {
  for (std::size_t at = 0; at < values.size(); at += bucket) {
    const auto part = values.subspan(at, std::min(bucket, values.size() - at));
    const float scale = scale_of(part);
    *out++ = scale;
    for (std::size_t begin = 0; begin < part.size(); begin += values_in_word) {
      std::uint32_t word = 0;
      for (std::size_t i = begin; i < std::min(begin + values_in_word, part.size()); ++i) {
        if (!draws.chance(std::abs(part[i]) / static_cast<double>(scale))) continue;
        word |= std::uint32_t{part[i] < 0 ? 2U : 1U} << (2 * (i - begin));
      }
      *out++ = std::bit_cast<float>(word);
    }
  }
}

/// Adds `weight` times the written values to `sum`. A code that no honest peer writes counts as 0.
void add(const float* in, float weight, std::span<float> sum) {
  for (std::size_t at = 0; at < sum.size(); at += bucket) {
    const auto part = sum.subspan(at, std::min(bucket, sum.size() - at));
    const float scale = weight * *in++;
    const std::array<float, 4> meanings = {0, scale, -scale, 0};
    for (std::size_t i = 0; i < part.size(); ++i) {
      const auto word = std::bit_cast<std::uint32_t>(in[i / values_in_word]);
      part[i] += meanings[word >> (2 * (i % values_in_word)) & 3];
    }
    in += words(part.size());
  }
}

}  // namespace ternary

/// TernGrad (Wen et al. 2017). In the paper all peers use the largest of their scales, so that a
/// server can sum integers. A common scale makes more values zero. Here codes are gathered, and
/// each code has its own scales. Each of n peers sends (n - 1) / 15.5 floats for each value. With
/// 16 or more peers, complete gradients are sent. No errors are kept, because apart from clipping
/// the mean is unbiased.
class TernaryCompressor final : public GatheredCompressor {
 public:
  explicit TernaryCompressor(std::size_t elements)
      : GatheredCompressor(elements, ternary::size(elements)) {}

  std::unique_ptr<GradientCompressor> blank() const override {
    return std::make_unique<TernaryCompressor>(elements());
  }

 private:
  bool write(const CompressionPlan& plan, std::span<float> gradient, std::span<float> out,
             Rng draws) override {
    if (!is_whole(plan)) ternary::write(gradient, own_part(plan, out), draws);
    return true;
  }
  void add(const float* code, float weight, std::span<float> sum) const override {
    ternary::add(code, weight, sum);
  }
};

}  // namespace

std::unique_ptr<GradientCompressor> ternary_compressor(const CompressorOptions&,
                                                       std::size_t elements,
                                                       const GradientPlaces&) {
  return std::make_unique<TernaryCompressor>(elements);
}

}  // namespace gv
