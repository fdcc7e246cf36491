// The result of a virtual run as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/virtual/curves.hpp"
#include "sim/virtual/hostile_tally.hpp"
#include "sim/virtual/simulator.hpp"
#include "sim/virtual/tally.hpp"

namespace gv {

/// One peer's result.
struct PeerSummary {
  PeerNumber number = 0;
  std::uint64_t step = 0;
  std::uint64_t budget = 0;       ///< Number of steps that the peer should take.
  bool has_model = false;         ///< False if the peer is down or never started.
  std::optional<Trial> trial;     ///< In a population, the peer's newest validation.
  std::uint64_t copies = 0;       ///< In a population, how often the peer has copied another one.
  double accuracy = 0;            ///< Accuracy on all test samples, 0 to 1; 0 without labels.
  std::optional<double> r2 = {};  ///< R2 on all test samples, if they have targets.

  /// R2 if the samples have targets, else accuracy. Larger is better.
  double merit() const { return r2.value_or(accuracy); }
  std::optional<HostileRule> hostile;
};

/// Returns a JSON object with the mean model's figures from `last`, the worst honest peer with a
/// model, traffic, counts of all events by name, faults, and each peer. Keys that `grapevine
/// launch` also writes have the same meaning here; docs/simulator.md lists them. `wall_s` is the
/// real duration of the run.
std::string virtual_summary(const Simulator& world, const Tally& tally, const HostileTally& hostile,
                            const CurvePoint& last, std::span<const PeerSummary> peers,
                            double wall_s);

}  // namespace gv
