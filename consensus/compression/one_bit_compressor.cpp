// A compressor that sends one bit for each value: 1-bit SGD with error feedback.
#include <algorithm>
#include <array>
#include <bit>

#include "base/magnitude.hpp"
#include "consensus/compression/compressors.hpp"
#include "consensus/compression/error_feedback.hpp"
#include "consensus/compression/gathered_compressor.hpp"

namespace gv {
namespace {

/// Packs a vector into floats, with one bit for each value. For every 512 values it stores the mean
/// of the negative ones, the mean of the others, and the sign bits (the paper does this for each
/// column of a matrix). The result can be gathered, but not summed.
namespace one_bit {

constexpr std::size_t bucket = 512;
constexpr std::size_t word_bits = 32;
constexpr std::size_t means = 2;

/// Number of floats that hold `values` values.
constexpr std::size_t size(std::size_t values) {
  const std::size_t rest = values % bucket;
  const std::size_t whole = values / bucket * (means + bucket / word_bits);
  return whole + (rest > 0 ? means + (rest + word_bits - 1) / word_bits : 0);
}

/// Writes the values into `out`, and subtracts the written values from `values`, which then hold
/// the errors.
void write(std::span<float> values, float* out) {
  for (std::size_t at = 0; at < values.size(); at += bucket) {
    const auto part = values.subspan(at, std::min(bucket, values.size() - at));
    std::array<double, means> sums{};
    std::array<std::size_t, means> counts{};
    for (const float value : part) {
      sums[value < 0] += static_cast<double>(value);
      ++counts[value < 0];
    }
    std::array<float, means> written{};
    for (std::size_t k = 0; k < means; ++k) {
      if (counts[k] > 0) written[k] = static_cast<float>(sums[k] / static_cast<double>(counts[k]));
    }
    out = std::ranges::copy(written, out).out;
    for (std::size_t begin = 0; begin < part.size(); begin += word_bits) {
      std::uint32_t word = 0;
      for (std::size_t i = begin; i < std::min(begin + word_bits, part.size()); ++i) {
        const bool is_negative = part[i] < 0;
        word |= std::uint32_t{is_negative} << (i - begin);
        part[i] -= written[is_negative];
      }
      *out++ = std::bit_cast<float>(word);
    }
  }
}

/// Adds `weight` times the written values to `sum`.
void add(const float* in, float weight, std::span<float> sum) {
  for (std::size_t at = 0; at < sum.size(); at += bucket) {
    const auto part = sum.subspan(at, std::min(bucket, sum.size() - at));
    const std::array<float, means> written = {weight * in[0], weight * in[1]};
    in += means;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const auto word = std::bit_cast<std::uint32_t>(in[i / word_bits]);
      part[i] += written[word >> (i % word_bits) & 1];
    }
    in += (part.size() + word_bits - 1) / word_bits;
  }
}

}  // namespace one_bit

/// 1-bit SGD (Seide et al. 2014). In the paper each aggregator sums one stripe of all peers'
/// one-bit values, and sends the sum on with one bit for each value again, keeping the error. Here
/// codes are gathered: each of n peers sends (n-1)/28 floats for each value, compared with 2(n-1)/n
/// for whole gradients. With 29 or more peers, complete gradients are sent, including the kept
/// errors.
class OneBitCompressor final : public GatheredCompressor {
 public:
  explicit OneBitCompressor(std::size_t elements)
      : GatheredCompressor(elements, one_bit::size(elements)), errors_(elements) {}

  std::unique_ptr<GradientCompressor> blank() const override {
    return std::make_unique<OneBitCompressor>(elements());
  }
  std::span<const float> decode(const CompressionPlan& plan, std::span<const float> sum) override {
    errors_.confirm();
    return GatheredCompressor::decode(plan, sum);
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
    if (is_whole(plan)) {
      std::ranges::fill(errors, 0.0F);
    } else {
      one_bit::write(errors, own_part(plan, out));
    }
    return true;
  }
  void add(const float* code, float weight, std::span<float> sum) const override {
    one_bit::add(code, weight, sum);
  }
  Named kept() const override { return errors_.kept(); }

  ErrorFeedback errors_;
};

}  // namespace

std::unique_ptr<GradientCompressor> one_bit_compressor(const CompressorOptions&,
                                                       std::size_t elements,
                                                       const GradientPlaces&) {
  return std::make_unique<OneBitCompressor>(elements);
}

}  // namespace gv
