// Draws hyper-parameters within their limits.
#include "peer/node/hyperparameters.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace gv {
namespace {

/// Lower bound of the learning rate, so that factors can raise it again.
constexpr double least = 1e-9;

Hyperparameters varied(const Hyperparameters& from, double rate_factor, double momentum_factor) {
  return {std::clamp(from.learning_rate * rate_factor, least, learning_rate_max),
          std::clamp(1 - (1 - from.momentum) * momentum_factor, 0.0, momentum_max)};
}

std::array<float, replica_tail_elements> as_floats(const ReplicaTail& tail) {
  return {static_cast<float>(tail.hyperparameters.learning_rate),
          static_cast<float>(tail.hyperparameters.momentum), static_cast<float>(tail.updates)};
}

}  // namespace

Hyperparameters first_hyperparameters(const Hyperparameters& from, double spread,
                                      std::uint64_t run_seed, std::uint64_t peer) {
  if (spread == 1) return from;  // Exactly, to the bit.
  Rng rng = Rng(run_seed).fork("hyperparameters").fork(peer);
  const double rate_factor = std::pow(spread, 2 * rng.uniform() - 1);
  return varied(from, rate_factor, std::pow(spread, 2 * rng.uniform() - 1));
}

Hyperparameters explored(const Hyperparameters& from, bool has_momentum, Rng& rng) {
  const auto factor = [&rng] { return rng.chance(0.5) ? 1.2 : 0.8; };
  const double rate_factor = factor();
  Hyperparameters next = varied(from, rate_factor, has_momentum ? factor() : 1);
  if (!has_momentum) next.momentum = from.momentum;
  return next;
}

void append(const ReplicaTail& tail, std::vector<float>& values) {
  const auto floats = as_floats(tail);
  values.insert(values.end(), floats.begin(), floats.end());
}

std::optional<ReplicaTail> tail_of(std::span<const float> values) {
  if (values.size() < replica_tail_elements) return std::nullopt;
  const auto tail = values.last(replica_tail_elements);
  // Also false for NaN.
  const bool sound = tail[0] > 0 && tail[0] <= static_cast<float>(learning_rate_max) &&
                     tail[1] >= 0 && tail[1] < 1 && tail[2] >= 0 && std::isfinite(tail[2]);
  if (!sound) return std::nullopt;
  return ReplicaTail{{tail[0], tail[1]}, static_cast<std::uint64_t>(std::min(tail[2], 1e18F))};
}

void set_tail(const ReplicaTail& tail, std::span<float> values) {
  std::ranges::copy(as_floats(tail), values.last(replica_tail_elements).begin());
}

}  // namespace gv
