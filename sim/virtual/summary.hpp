// What a virtual run came to, for programs.
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

/// One peer's part in it.
struct PeerSummary {
  PeerNumber number = 0;
  std::uint64_t step = 0;
  std::uint64_t budget = 0;    ///< Steps it was to make.
  bool has_model = false;      ///< Else it is down, or never came.
  std::optional<Trial> trial;  ///< In a population: its newest,
  std::uint64_t copies = 0;    ///< and how often it copied others.
  double accuracy = 0;         ///< On all test samples, 0 to 1; 0 where nothing is trained.
  std::optional<HostileRule> hostile;
};

/// A JSON object: the mean model as `last` has it, the worst of the honest with a model, what was
/// sent, every event by name, faults, and each peer. Keys that `grapevine launch` has too mean the
/// same; docs/simulator.md lists them. `wall_s` is how long the run took.
std::string virtual_summary(const Simulator& world, const Tally& tally, const HostileTally& hostile,
                            const CurvePoint& last, std::span<const PeerSummary> peers,
                            double wall_s);

}  // namespace gv
