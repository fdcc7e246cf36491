// Hyper-parameters of a peer's own: where they begin, how they are varied, how they travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/rng.hpp"
#include "train/spec.hpp"

namespace gv {

/// No learning rate is above this and no momentum above that, however often they are varied.
inline constexpr double learning_rate_max = 1000;
inline constexpr double momentum_max = 0.999999;

/// Where peer `peer` begins: the learning rate and 1 - momentum of `from`, each times a factor
/// drawn from 1/spread to spread, evenly on a logarithmic scale. A function of the run's seed and
/// the peer.
Hyperparameters first_hyperparameters(const Hyperparameters& from, double spread,
                                      std::uint64_t run_seed, std::uint64_t peer);

/// The learning rate times 0.8 or 1.2, and, with `has_momentum`, 1 - momentum times another such
/// draw: a step comes to learning_rate / (1 - momentum), and no factor takes momentum to 1.
Hyperparameters explored(const Hyperparameters& from, bool has_momentum, Rng& rng);

/// What follows the optimiser's vectors when a whole replica is downloaded.
struct ReplicaTail {
  Hyperparameters hyperparameters;
  std::uint64_t updates = 0;  ///< Since the optimiser started afresh; as a float, so roughly.
};

/// Floats that it takes.
inline constexpr std::size_t replica_tail_elements = 3;

void append(const ReplicaTail& tail, std::vector<float>& values);

/// Of the last floats of `values`; empty if they are not what one can train with.
std::optional<ReplicaTail> tail_of(std::span<const float> values);
void set_tail(const ReplicaTail& tail, std::span<float> values);

}  // namespace gv
