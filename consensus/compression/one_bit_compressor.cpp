// A compressor that sends one bit for each value: 1-bit SGD with error feedback.
#include <algorithm>
#include <array>
#include <bit>

#include "base/magnitude.hpp"
#include "consensus/compression/compressors.hpp"

namespace gv {
namespace {

/// Writes a vector with one bit for each value into floats. For every 512 values it stores the mean
/// of the negative ones, the mean of the others, and the sign bits (the paper does this for each
/// column of a matrix). The result can be gathered, but not summed.
namespace one_bit {

/// The name that top-k uses, too, because both keep the same kind of values.
constexpr const char* waiting_name = "waiting";
constexpr std::size_t bucket = 512;
constexpr std::size_t word_bits = 32;
constexpr std::size_t means = 2;

/// Number of floats that hold `values` values.
constexpr std::size_t size(std::size_t values) {
  const std::size_t rest = values % bucket;
  const std::size_t whole = values / bucket * (means + bucket / word_bits);
  return whole + (rest > 0 ? means + (rest + word_bits - 1) / word_bits : 0);
}

/// Writes the values into `out` and subtracts the written values, which leaves the errors.
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
/// one-bit values, and sends the sum on as one bit again, with an error that it keeps. Here every
/// peer receives the values of all peers, and sums them itself in the order of ranks. So all get
/// the same bits, a sum has no error of its own, and no aggregator can be lost. The price is that a
/// peer passes on what all others sent: n peers send (n - 1) / 28 floats for each value, against 2
/// (n - 1) / n for whole gradients. From 29 peers on, the values of all would be longer than a
/// gradient. Then, and for a single peer, the gradient is sent whole, including what was kept.
class OneBitCompressor final : public GradientCompressor {
 public:
  explicit OneBitCompressor(std::size_t elements) : elements_(elements) {}

  std::unique_ptr<GradientCompressor> blank() const override {
    return std::make_unique<OneBitCompressor>(elements_);
  }
  WireFormat wire() const override { return {}; }
  std::size_t longest() const override { return elements_; }
  /// The position of our part depends on our rank.
  bool depends_on_generation() const override { return true; }

  CompressionPlan plan(const GradientSum& sum) const override {
    const std::size_t own = one_bit::size(elements_);
    CompressionPlan plan{.sum = sum,
                         .elements = own * sum.shares.size(),
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
      plan.parts.push_back({rank * own, (rank + 1) * own});
    }
    return plan;
  }

  std::span<const float> decode(const CompressionPlan& plan, std::span<const float> sum) override {
    if (is_encoded_) std::swap(waiting_, errors_);
    is_encoded_ = false;
    if (plan.parts.empty()) return sum;
    double samples = 0;
    for (const std::uint32_t share : plan.sum.shares) samples += share;
    mean_.assign(elements_, 0);
    for (std::size_t rank = 0; rank < plan.parts.size(); ++rank) {
      const auto weight = static_cast<float>(plan.sum.shares[rank] / samples);
      one_bit::add(sum.subspan(plan.parts[rank].begin).data(), weight, mean_);
    }
    return mean_;
  }

  void clear() override {
    waiting_.clear();
    is_encoded_ = false;
  }

  void restore(const std::string& name, std::vector<float> values) override {
    if (name == one_bit::waiting_name && values.size() == elements_) waiting_ = std::move(values);
  }

 private:
  bool write(const CompressionPlan& plan, std::span<float> gradient, std::span<float> out,
             Rng) override {
    for (std::size_t i = 0; i < waiting_.size(); ++i) gradient[i] += waiting_[i];
    if (!is_finite(gradient)) return false;
    is_encoded_ = true;
    errors_.assign(elements_, 0);
    if (plan.parts.empty()) return true;
    std::ranges::copy(gradient, errors_.begin());
    one_bit::write(errors_, out.subspan(plan.parts[plan.sum.rank].begin).data());
    return true;
  }

  Named kept() const override {
    if (waiting_.empty()) return {};
    return {{one_bit::waiting_name, waiting_}};
  }

  std::size_t elements_;
  std::vector<float> waiting_;  ///< The errors of all confirmed gradients. Empty if there are none.
  std::vector<float> errors_;   ///< The value of `waiting_` once the newest gradient is confirmed.
  bool is_encoded_ = false;     ///< True while the sum with the newest gradient has not arrived.
  std::vector<float> mean_;
};

}  // namespace

std::unique_ptr<GradientCompressor> one_bit_compressor(const CompressorOptions&,
                                                       std::size_t elements,
                                                       const GradientPlaces&) {
  return std::make_unique<OneBitCompressor>(elements);
}

}  // namespace gv
