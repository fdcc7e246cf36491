// What every direction between two peers is like now: the scenario's links and the faults on them.
#pragma once

#include <cstddef>
#include <map>

#include "sim/scenario.hpp"

namespace gv {

/// One direction between two peers at one moment.
struct LinkState {
  LinkQuality quality;
  bool held = false;  ///< Nothing passes now: a partition, a cut or a clog.
};

/// True of faults that befall links and not peers; `heal` ends them.
bool is_of_links(FaultKind kind);

/// The faults of links that are active. Pure.
class LinkFaults {
 public:
  /// Of `scenario` the links count; its faults begin and end by what follows.
  explicit LinkFaults(const Scenario& scenario) : scenario_(scenario) {}

  /// A fault of links begins or ends; `heal` ends them all.
  void apply(const Happening& happening);

  /// Probabilities of several faults combine as if independent, latencies add up, the smallest
  /// bandwidth counts.
  LinkState between(std::size_t from, std::size_t to) const;

 private:
  Scenario scenario_;
  std::map<std::size_t, FaultRule> active_;  ///< By Happening::fault.
};

}  // namespace gv
