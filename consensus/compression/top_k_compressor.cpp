// The compressor that sends the largest of every 512 values: top-k, with the momentum of deep
// gradient compression.
#include <algorithm>
#include <cmath>
#include <optional>

#include "consensus/codec/sparse_vector.hpp"
#include "consensus/compression/compressors.hpp"
#include "consensus/compression/dgc.hpp"

namespace gv {
namespace {

constexpr std::size_t top_k_block = 512;
constexpr const char* waiting_name = "waiting";
constexpr const char* momentum_name = "momentum";

/// Top-k that also keeps the state before the newest selection, so that a gradient can be encoded
/// again.
class TopKCompressor final : public GradientCompressor {
 public:
  TopKCompressor(const CompressorOptions& options, std::size_t elements)
      : options_(options), elements_(elements) {}

  std::unique_ptr<GradientCompressor> blank() const override {
    return std::make_unique<TopKCompressor>(options_, elements_);
  }
  WireFormat wire() const override { return {.codec = options_.codec, .sparse = true}; }
  std::size_t longest() const override { return elements_; }
  CompressionPlan plan(const GradientSum& sum) const override {
    return {.sum = sum,
            .elements = elements_,
            .parts = {},
            .factored = {},
            .in_place = true,
            .piecewise = false};
  }

  std::span<const float> decode(const CompressionPlan&, std::span<const float> sum) override {
    settled_ = true;
    return sum;
  }

  void clear() override {
    now_.reset();
    before_.reset();
    settled_ = true;
    waiting_.clear();
    momentum_.clear();
  }

  void restore(const std::string& name, std::vector<float> values) override {
    if (name == waiting_name) waiting_ = std::move(values);
    if (name == momentum_name) momentum_ = std::move(values);
  }

 private:
  /// Keeps only the selected values, rounded as the receivers will decode them, and sets all others
  /// to zero.
  bool write(const CompressionPlan& plan, std::span<float> values, std::span<float>,
             Rng draws) override {
    if (!is_writable(options_.codec, values)) return false;
    if (!now_) {
      const double momentum = plan.sum.local ? 0 : options_.momentum;
      now_.emplace(DgcOptions{.momentum = momentum, .block = top_k_block}, values.size());
      now_->restore(std::exchange(momentum_, {}), std::exchange(waiting_, {}));
    }
    if (std::exchange(settled_, false)) {
      before_ = now_;
    } else {
      now_ = before_;
    }
    const double share = static_cast<double>(options_.keep_at(plan.sum.step)) / top_k_block;
    const SparseVector kept = now_->step(values, share);
    const std::optional<SparseVector> sent =
        gv::decode(gv::encode(kept, options_.codec, draws), values.size());
    std::ranges::fill(values, 0.0F);
    if (!sent)
      return false;  // A value became too large when the values from earlier steps were
                     // added.
    now_->keep_error(kept, *sent);
    sent->add_to(values);
    return true;
  }

  Named kept() const override {
    std::vector<float> waiting = waiting_;
    std::vector<float> momentum = momentum_;
    if (const std::optional<Dgc>& sound = settled_ ? now_ : before_) {
      waiting.assign(sound->waiting().begin(), sound->waiting().end());
      if (sound->options().momentum > 0) {
        momentum.assign(sound->momentum().begin(), sound->momentum().end());
      }
    }
    Named vectors;
    if (!waiting.empty()) vectors.emplace_back(waiting_name, std::move(waiting));
    if (!momentum.empty()) vectors.emplace_back(momentum_name, std::move(momentum));
    return vectors;
  }

  CompressorOptions options_;
  std::size_t elements_;
  std::optional<Dgc> now_;
  std::optional<Dgc> before_;    ///< The state before the newest selection.
  bool settled_ = true;          ///< True once the sum with the newest selection has arrived.
  std::vector<float> waiting_;   ///< The waiting values from a checkpoint, until the first
                                 ///< selection.
  std::vector<float> momentum_;  ///< The momentum from a checkpoint, until the first selection.
};

}  // namespace

std::size_t CompressorOptions::keep_at(std::uint64_t step) const {
  if (top_k_per_512 == 0 || warm_up_steps == 0) return top_k_per_512;
  // The number of stages is the paper's number of warm-up epochs.
  constexpr std::uint64_t stages = 5;
  const double last = static_cast<double>(top_k_per_512) / top_k_block;
  const double share =
      dgc_share(stages * std::min(step, warm_up_steps) / warm_up_steps, last, stages);
  return std::min<std::size_t>(top_k_block - 1,
                               static_cast<std::size_t>(std::ceil(top_k_block * share)));
}

std::unique_ptr<GradientCompressor> top_k_compressor(const CompressorOptions& options,
                                                     std::size_t elements, const GradientPlaces&) {
  return std::make_unique<TopKCompressor>(options, elements);
}

}  // namespace gv
