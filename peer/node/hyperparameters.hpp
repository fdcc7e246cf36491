// A peer's own hyper-parameters: their first values, their changes, and their form in downloads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/rng.hpp"
#include "train/learner/hyperparameters.hpp"

namespace gv {

/// Upper bounds, which hold however often the values are varied.
inline constexpr double learning_rate_max = 1000;
inline constexpr double momentum_max = 0.999999;
inline constexpr double weight_decay_max = 1;
inline constexpr double batch_max = 65536;
inline constexpr double alpha_max = 0.5;  ///< Above this value models can diverge.
inline constexpr double period_max = 1e6;

/// Returns the first values of peer `peer`. The learning rate, 1 - momentum, and each other value
/// of `from` that is not 0 are multiplied by factors drawn between 1/spread and spread, uniformly
/// on a logarithmic scale. Equal arguments give equal values.
Hyperparameters first_hyperparameters(const Hyperparameters& from, double spread,
                                      std::uint64_t run_seed, std::uint64_t peer);

/// Returns `from` with the learning rate and each other value that is not 0 multiplied by 0.8 or
/// 1.2, each by a separate draw. With `has_momentum`, 1 - momentum is multiplied likewise. Steps
/// are proportional to learning_rate / (1 - momentum), and no factor on 1 - momentum can make the
/// momentum 1. A whole number changes by at least 1.
Hyperparameters explored(const Hyperparameters& from, bool has_momentum, Rng& rng);

/// The numbers that follow the optimiser's vectors when a whole replica is downloaded.
struct ReplicaTail {
  Hyperparameters hyperparameters;
  /// Updates since the optimiser was reset. Approximate, because the number travels as a float.
  std::uint64_t updates = 0;
};

/// Floats in a ReplicaTail.
inline constexpr std::size_t replica_tail_elements = 7;

void append(const ReplicaTail& tail, std::vector<float>& values);

/// Reads the tail from the last floats of `values`. Returns nullopt if it is unusable for training.
std::optional<ReplicaTail> tail_of(std::span<const float> values);
void set_tail(const ReplicaTail& tail, std::span<float> values);

}  // namespace gv
