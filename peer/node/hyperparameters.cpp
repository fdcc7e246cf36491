// Draws hyper-parameters within their limits.
#include "peer/node/hyperparameters.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace gv {
namespace {

/// Lower bound of fractional values. It is above 0, so that factors can raise such values again.
constexpr double least = 1e-9;

/// Returns `value` times `factor`, limited to the range from `least` to `most`. A value of 0 stays
/// 0.
double times(double value, double factor, double most) {
  return value == 0 ? 0 : std::clamp(value * factor, least, most);
}

/// Like times(), for a whole number. It changes by at least 1 unless it is 0 or the factor is 1.
double times_whole(double value, double factor, double most) {
  if (value == 0) return 0;
  const double wanted = value * factor;
  const double rounded = factor > 1 ? std::ceil(wanted) : std::floor(wanted);
  return std::clamp(factor == 1 ? value : rounded, 1.0, most);
}

/// Varies the hyper-parameters other than learning rate and momentum.
template <class Factor>
void vary_rest(Hyperparameters& values, Factor factor) {
  if (values.weight_decay != 0) {
    values.weight_decay = times(values.weight_decay, factor(), weight_decay_max);
  }
  if (values.batch != 0) values.batch = times_whole(values.batch, factor(), batch_max);
  if (values.alpha != 0) values.alpha = times(values.alpha, factor(), alpha_max);
  if (values.period != 0) values.period = times_whole(values.period, factor(), period_max);
}

Hyperparameters varied(const Hyperparameters& from, double rate_factor, double momentum_factor) {
  Hyperparameters next = from;
  next.learning_rate = std::clamp(from.learning_rate * rate_factor, least, learning_rate_max);
  next.momentum = std::clamp(1 - (1 - from.momentum) * momentum_factor, 0.0, momentum_max);
  return next;
}

std::array<float, replica_tail_elements> as_floats(const ReplicaTail& tail) {
  const Hyperparameters& own = tail.hyperparameters;
  return {static_cast<float>(own.learning_rate), static_cast<float>(own.momentum),
          static_cast<float>(tail.updates),      static_cast<float>(own.weight_decay),
          static_cast<float>(own.batch),         static_cast<float>(own.alpha),
          static_cast<float>(own.period)};
}

/// True if the value is between 0 and `most`. False for NaN.
bool is_sound(float value, double most) { return value >= 0 && value <= static_cast<float>(most); }
bool is_whole(float value, double most) {
  return is_sound(value, most) && value == std::floor(value);
}

}  // namespace

Hyperparameters first_hyperparameters(const Hyperparameters& from, double spread,
                                      std::uint64_t run_seed, std::uint64_t peer) {
  if (spread == 1) return from;  // Keeps every value exactly.
  Rng rng = Rng(run_seed).fork("hyperparameters").fork(peer);
  const auto factor = [&] { return std::pow(spread, 2 * rng.uniform() - 1); };
  const double rate_factor = factor();
  Hyperparameters first = varied(from, rate_factor, factor());
  vary_rest(first, factor);
  return first;
}

Hyperparameters explored(const Hyperparameters& from, bool has_momentum, Rng& rng) {
  const auto factor = [&rng] { return rng.chance(0.5) ? 1.2 : 0.8; };
  const double rate_factor = factor();
  Hyperparameters next = varied(from, rate_factor, has_momentum ? factor() : 1);
  if (!has_momentum) next.momentum = from.momentum;
  vary_rest(next, factor);
  return next;
}

void append(const ReplicaTail& tail, std::vector<float>& values) {
  const auto floats = as_floats(tail);
  values.insert(values.end(), floats.begin(), floats.end());
}

std::optional<ReplicaTail> tail_of(std::span<const float> values) {
  if (values.size() < replica_tail_elements) return std::nullopt;
  const auto tail = values.last(replica_tail_elements);
  // `sound` is also false if a value is NaN.
  const bool sound = tail[0] > 0 && tail[0] <= static_cast<float>(learning_rate_max) &&
                     tail[1] >= 0 && tail[1] < 1 && tail[2] >= 0 && std::isfinite(tail[2]) &&
                     is_sound(tail[3], weight_decay_max) && is_whole(tail[4], batch_max) &&
                     is_sound(tail[5], alpha_max) && is_whole(tail[6], period_max);
  if (!sound) return std::nullopt;
  return ReplicaTail{{.learning_rate = tail[0],
                      .momentum = tail[1],
                      .weight_decay = tail[3],
                      .batch = tail[4],
                      .alpha = tail[5],
                      .period = tail[6]},
                     static_cast<std::uint64_t>(std::min(tail[2], 1e18F))};
}

void set_tail(const ReplicaTail& tail, std::span<float> values) {
  std::ranges::copy(as_floats(tail), values.last(replica_tail_elements).begin());
}

}  // namespace gv
