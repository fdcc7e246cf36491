// The present state of every direction between two peers: the scenario's links and the faults on
// them.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "sim/scenario.hpp"

namespace gv {

/// One direction between two peers at one moment.
struct LinkState {
  LinkQuality quality;
  bool cut = false;                   ///< Nothing passes: a partition or a cut.
  std::optional<Time> clogged_until;  ///< Nothing arrives before this.

  bool held() const { return cut || clogged_until; }
};

/// The active faults of links, for virtual links and for the proxy of real ones. Pure.
class LinkFaults {
 public:
  /// Uses only the links of `scenario`; its faults begin and end through the following calls.
  explicit LinkFaults(const Scenario& scenario) : scenario_(scenario) {}

  /// A fault of links begins or ends; `heal` ends them all.
  void apply(const FaultEvent& fault_event);
  void heal() { active_.clear(); }

  /// Probabilities of several faults combine as if independent, latencies add up, the smallest
  /// bandwidth counts.
  LinkState between(std::size_t from, std::size_t to) const;

 private:
  Scenario scenario_;
  std::map<std::size_t, FaultEvent> active_;  ///< By FaultEvent::fault.
};

}  // namespace gv
