// Combines links with the faults that are active on them.
#include "sim/link_faults.hpp"

#include <algorithm>

namespace gv {
namespace {

/// The probability that at least one of two independent events happens.
double either(double a, double b) { return 1 - (1 - a) * (1 - b); }

bool concerns(const FaultRule& rule, std::size_t from, std::size_t to) {
  const bool forth = rule.peers.contains(from) && rule.to.contains(to);
  const bool back = rule.peers.contains(to) && rule.to.contains(from);
  if (rule.kind == FaultKind::partition)
    return rule.peers.contains(from) != rule.peers.contains(to);
  return rule.kind == FaultKind::cut ? forth : forth || back;
}

}  // namespace

void LinkFaults::apply(const FaultEvent& fault_event) {
  if (!fault_event.begins) {
    active_.erase(fault_event.fault);
  } else if (fault_event.rule.kind == FaultKind::heal) {
    heal();
  } else if (is_of_links(fault_event.rule.kind)) {
    active_.emplace(fault_event.fault, fault_event);
  }
}

LinkState LinkFaults::between(std::size_t from, std::size_t to) const {
  LinkState state{.quality = scenario_.link(from, to)};
  LinkQuality& quality = state.quality;
  for (const auto& [fault, fault_event] : active_) {
    const FaultRule& rule = fault_event.rule;
    if (!concerns(rule, from, to)) continue;
    const double slower = rule.quality.bandwidth;
    switch (rule.kind) {
      case FaultKind::slow_link:
        quality.latency += rule.quality.latency;
        if (slower > 0 && (quality.bandwidth == 0 || slower < quality.bandwidth)) {
          quality.bandwidth = slower;
        }
        break;
      case FaultKind::loss:
        quality.loss = either(quality.loss, rule.probability);
        break;
      case FaultKind::duplicate:
        quality.duplicate = either(quality.duplicate, rule.probability);
        break;
      case FaultKind::reorder:
        quality.reorder = either(quality.reorder, rule.probability);
        break;
      case FaultKind::corrupt:
        quality.corrupt = either(quality.corrupt, rule.probability);
        break;
      case FaultKind::clog:
        state.clogged_until =
            std::max(state.clogged_until.value_or(Time{}), fault_event.at + rule.lasts);
        break;
      default:
        state.cut = true;
    }
  }
  return state;
}

}  // namespace gv
