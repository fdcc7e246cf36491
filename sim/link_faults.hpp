// The present state of each direction between two peers: the scenario's links with the active
// faults.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "sim/scenario.hpp"

namespace gv {

/// The state of one direction between two peers at one moment.
struct LinkState {
  LinkQuality quality;
  bool cut = false;                   ///< Nothing passes, because of a partition or a cut.
  std::optional<Time> clogged_until;  ///< Nothing arrives before this time.

  bool held() const { return cut || clogged_until; }
};

/// The active link faults, used for virtual links and for the proxy of real ones. Pure.
class LinkFaults {
 public:
  /// Uses only the links of `scenario`. Its faults begin and end through the calls below.
  explicit LinkFaults(const Scenario& scenario) : scenario_(scenario) {}

  /// Begins or ends a link fault. `heal` ends all of them.
  void apply(const FaultEvent& fault_event);
  void heal() { active_.clear(); }

  /// Combines several faults: probabilities as if independent, latencies add up, and the smallest
  /// bandwidth counts.
  LinkState between(std::size_t from, std::size_t to) const;

 private:
  Scenario scenario_;
  std::map<std::size_t, FaultEvent> active_;  ///< The active faults by FaultEvent::fault.
};

}  // namespace gv
