// The current state of the link from each peer to each other peer: the scenario's links combined
// with the active faults.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "sim/scenario.hpp"

namespace gv {

/// The state of one direction between two peers at one moment.
struct LinkState {
  LinkQuality quality;
  bool cut = false;                   ///< True if a partition or a cut blocks everything.
  std::optional<Time> clogged_until;  ///< Nothing arrives before this time.

  bool held() const { return cut || clogged_until; }
};

/// The active link faults, for virtual links and for the proxy of real links. Pure.
class LinkFaults {
 public:
  /// Begins with the links of `scenario` and no active faults.
  explicit LinkFaults(const Scenario& scenario) : scenario_(scenario) {}

  /// apply() begins or ends one link fault. heal() ends all active ones.
  void apply(const FaultEvent& fault_event);
  void heal() { active_.clear(); }

  /// Combines all active faults: probabilities combine as if independent, latencies add up, and the
  /// smallest bandwidth counts.
  LinkState between(std::size_t from, std::size_t to) const;

 private:
  Scenario scenario_;
  std::map<std::size_t, FaultEvent> active_;  ///< The active faults by FaultEvent::fault.
};

}  // namespace gv
