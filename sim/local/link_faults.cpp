// Combines links with the faults that are active on them.
#include "sim/local/link_faults.hpp"

#include <algorithm>

namespace gv {
namespace {

/// The probability that one or the other happens.
double either(double a, double b) { return 1 - (1 - a) * (1 - b); }

bool concerns(const FaultRule& rule, std::size_t from, std::size_t to) {
  const bool forth = rule.peers.contains(from) && rule.to.contains(to);
  const bool back = rule.peers.contains(to) && rule.to.contains(from);
  if (rule.kind == FaultKind::partition)
    return rule.peers.contains(from) != rule.peers.contains(to);
  return rule.kind == FaultKind::cut ? forth : forth || back;
}

}  // namespace

bool is_of_links(FaultKind kind) {
  switch (kind) {
    case FaultKind::partition:
    case FaultKind::cut:
    case FaultKind::clog:
    case FaultKind::heal:
    case FaultKind::slow_link:
    case FaultKind::loss:
    case FaultKind::duplicate:
    case FaultKind::reorder:
    case FaultKind::corrupt:
      return true;
    default:
      return false;
  }
}

void LinkFaults::apply(const Happening& happening) {
  if (!happening.begins) {
    active_.erase(happening.fault);
  } else if (happening.rule.kind == FaultKind::heal) {
    active_.clear();
  } else if (is_of_links(happening.rule.kind)) {
    active_.emplace(happening.fault, happening.rule);
  }
}

LinkState LinkFaults::between(std::size_t from, std::size_t to) const {
  LinkState state{.quality = scenario_.link(from, to)};
  LinkQuality& quality = state.quality;
  for (const auto& [fault, rule] : active_) {
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
      default:
        state.held = true;
    }
  }
  return state;
}

}  // namespace gv
