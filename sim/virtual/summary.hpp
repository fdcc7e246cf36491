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
  std::uint64_t budget = 0;       ///< Steps that it should take.
  bool has_model = false;         ///< False: it is down, or never started.
  std::optional<Trial> trial;     ///< In a population: its newest validation.
  std::uint64_t copies = 0;       ///< In a population: copies of other peers.
  double accuracy = 0;            ///< Accuracy on all test samples, 0 to 1; 0 without labels.
  std::optional<double> r2 = {};  ///< R2 on all test samples, if they have targets.

  /// Accuracy or R2, whichever the samples have. Larger is better.
  double merit() const { return r2.value_or(accuracy); }
  std::optional<HostileRule> hostile;
};

/// Returns a JSON object: the mean model as in `last`, the worst honest peer with a model, traffic,
/// the count of every event by name, faults, and each peer. Keys shared with `grapevine launch`
/// have the same meaning; docs/simulator.md lists them. `wall_s` is the duration of the run.
std::string virtual_summary(const Simulator& world, const Tally& tally, const HostileTally& hostile,
                            const CurvePoint& last, std::span<const PeerSummary> peers,
                            double wall_s);

}  // namespace gv
