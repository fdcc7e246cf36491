// Selects values, and goes back to the state before the last selection.
#include "consensus/compression/error_feedback.hpp"

#include <algorithm>
#include <utility>

namespace gv {
namespace {

constexpr std::size_t block = 512;
constexpr const char* waiting_name = "waiting";
constexpr const char* momentum_name = "momentum";
constexpr const char* factors_name = "unsent";

}  // namespace

bool ErrorFeedback::select(std::span<float> values, const Sparsifier& how, Rng rng) {
  if (std::exchange(local_, how.local) != how.local) clear();
  if (!now_) {
    now_.emplace(DgcOptions{.momentum = how.momentum, .block = block}, values.size());
    now_->restore(std::exchange(momentum_, {}), std::exchange(waiting_, {}));
  }
  if (std::exchange(settled_, false)) {
    before_ = now_;
  } else {
    now_ = before_;
  }
  const SparseVector kept = now_->step(values, static_cast<double>(how.top_k_per_512) / block);
  const std::optional<SparseVector> sent = decode(encode(kept, how.codec, rng), values.size());
  std::ranges::fill(values, 0.0F);
  if (!sent) return false;  // Together with the values kept from earlier steps it is too large.
  now_->keep_error(kept, *sent);
  sent->add_to(values);
  return true;
}

bool ErrorFeedback::encode_factors(std::span<const float> values, PowerSgd::Turn turn, bool local,
                                   ValueCodec codec, std::span<float> part) {
  if (std::exchange(local_, local) != local) clear();
  part = part.first(factors_->shape().size(turn.number));
  factors_->encode(values, turn, part);
  return is_writable(codec, part);
}

std::span<const float> ErrorFeedback::decode_factors(std::span<const float> mean) {
  decoded_.resize(factors_->shape().elements);
  factors_->decode(mean.first(factors_->part().size()), decoded_);
  return decoded_;
}

void ErrorFeedback::clear() {
  now_.reset();
  before_.reset();
  settled_ = true;
  waiting_.clear();
  momentum_.clear();
  if (factors_) factors_->clear();
}

std::vector<std::pair<std::string, std::vector<float>>> ErrorFeedback::lasting() const {
  std::vector<float> waiting = waiting_;
  std::vector<float> momentum = momentum_;
  if (const std::optional<Dgc>& sound = settled_ ? now_ : before_) {
    waiting.assign(sound->waiting().begin(), sound->waiting().end());
    if (sound->options().momentum > 0) {
      momentum.assign(sound->momentum().begin(), sound->momentum().end());
    }
  }
  std::vector<std::pair<std::string, std::vector<float>>> vectors;
  if (local_) return vectors;
  if (!waiting.empty()) vectors.emplace_back(waiting_name, std::move(waiting));
  if (!momentum.empty()) vectors.emplace_back(momentum_name, std::move(momentum));
  if (factors_ && !factors_->memory().empty()) {
    const auto kept = factors_->memory();
    vectors.emplace_back(factors_name, std::vector(kept.begin(), kept.end()));
  }
  return vectors;
}

void ErrorFeedback::restore(const std::string& name, std::vector<float> values) {
  if (name == waiting_name) waiting_ = std::move(values);
  if (name == momentum_name) momentum_ = std::move(values);
  if (name == factors_name && factors_) factors_->restore(std::move(values));
}

}  // namespace gv
