// Applies faults to a virtual world, and heals it.
#include <algorithm>

#include "peer/config/switched_mode.hpp"
#include "sim/virtual/world.hpp"

namespace gv {
namespace {

/// Number of the fault that heals a world. No other fault has this number.
constexpr auto heal_of_all = static_cast<std::size_t>(-1);
/// Bounds on the combined factor of overlapping faults of one kind, so that durations stay finite.
constexpr double factor_least = 1e-4;
constexpr double factor_most = 1e4;

}  // namespace

/// Returns the factor by which all CPU faults together change the peer's pace.
double Simulator::World::slowness(PeerNumber number) const {
  double factor = 1;
  for (const auto& [fault, rule] : machines[number].faults) {
    if (rule.kind == FaultKind::slow_cpu) factor *= rule.factor;
  }
  return std::clamp(factor, factor_least, factor_most);
}

void Simulator::World::set_clock(PeerNumber number, Duration jump, double rate) {
  Machine& machine = machines[number];
  machine.clock_local = local(number) + jump;
  machine.clock_true = now;
  machine.clock_rate = rate;
  machine.armed = never;
  if (peers[number].state == PeerState::up) {
    feed(number, {.kind = Input::Kind::tick, .peer = number},
         [&](Node& node, Time t, NodeEffects& out) { node.tick(t, out); });
  }
}

/// Applies the combined faults of a peer: faults of one kind multiply or add up, so the end of one
/// does not affect the others.
void Simulator::World::refresh(PeerNumber number) {
  Machine& machine = machines[number];
  Disk& disk = peers[number].disk;
  bool stopped = false;
  double rate = 1;
  disk.full = false;
  disk.slower = {};
  for (const auto& [fault, rule] : machine.faults) {
    stopped = stopped || rule.kind == FaultKind::stop;
    if (rule.kind == FaultKind::clock_rate) rate *= rule.factor;
    if (rule.kind == FaultKind::disk_full) disk.full = true;
    if (rule.kind == FaultKind::slow_disk) disk.slower += rule.jump;
  }
  rate = std::clamp(rate, factor_least, factor_most);
  if (rate != machine.clock_rate) set_clock(number, {}, rate);
  if (peers[number].state == PeerState::up && machine.job && slowness(number) != machine.job_cpu) {
    book_job(number);
    time_job(number);
  }
  stopped ? stop(number) : wake(number);
}

void Simulator::World::apply_to(const FaultEvent& fault_event, PeerNumber number) {
  Machine& machine = machines[number];
  const PeerState state = peers[number].state;
  switch (fault_event.rule.kind) {
    case FaultKind::kill:
      if (!is_reachable(number)) return;
      end(number, PeerState::down);
      machine.taken_by = fault_event.fault;
      break;
    case FaultKind::restart:
      end(number, PeerState::down);
      if (peers[number].state == PeerState::down) start(number);
      break;
    case FaultKind::leave:
      if (!is_reachable(number)) return;
      if (fault_event.rule.lasts > Duration{}) machine.taken_by = fault_event.fault;
      leave(number);
      break;
    case FaultKind::join:
      if (state == PeerState::absent) start(number);
      break;
    case FaultKind::resume:
      std::erase_if(machine.faults,
                    [](const auto& fault) { return fault.second.kind == FaultKind::stop; });
      refresh(number);
      break;
    case FaultKind::switch_to:
      if (state == PeerState::up) switch_to(number, settings_of(fault_event.rule.algorithm));
      break;
    case FaultKind::revoke:
      for (PeerNumber other = 0; other < peers.size(); ++other) {
        if (fault_event.rule.to.contains(other)) revoke_by(number, id_of(other));
      }
      break;
    case FaultKind::clock_jump:
      set_clock(number, fault_event.rule.jump, machine.clock_rate);
      break;
    case FaultKind::stop:
      if (!is_reachable(number)) return;
      [[fallthrough]];
    default:
      machine.faults.emplace(fault_event.fault, fault_event.rule);
      refresh(number);
      break;
  }
}

/// Ends the effect of `fault_event` on this peer.
void Simulator::World::revert(const FaultEvent& fault_event, PeerNumber number) {
  Machine& machine = machines[number];
  if (machine.taken_by == fault_event.fault) {
    // If the peer was asked to leave and has not left yet, kill it, as a service manager would.
    end(number, PeerState::ended);
    start(number);
  } else if (machine.faults.erase(fault_event.fault) > 0) {
    refresh(number);
  }
}

void Simulator::World::apply(const FaultEvent& fault_event) {
  ++counts.fault_events;
  mix_event(8, 0, fault_event.fault << 1 | (fault_event.begins ? 1U : 0U));
  for (Watcher* watcher : watchers) watcher->on_fault_event(outer, fault_event);
  if (is_of_links(fault_event.rule.kind)) {
    link_faults.apply(fault_event);
    ++link_version;
    return;
  }
  for (PeerNumber number = 0; number < peers.size(); ++number) {
    if (!fault_event.rule.peers.contains(number)) continue;
    fault_event.begins ? apply_to(fault_event, number) : revert(fault_event, number);
  }
}

void Simulator::World::heal() {
  // Cancel all future fault events, and keep all other events.
  EventQueue<Event> kept;
  while (!queue.empty()) {
    const Time at = queue.next();
    Event event = queue.pop();
    if (!std::holds_alternative<FaultEvent>(event)) kept.push(at, std::move(event));
  }
  queue = std::move(kept);
  starts_left = 0;
  apply({.at = now, .fault = heal_of_all, .rule = {.kind = FaultKind::heal}});
  for (PeerNumber number = 0; number < peers.size(); ++number) {
    machines[number].faults.clear();
    refresh(number);
    const PeerState state = peers[number].state;
    if (state == PeerState::down || state == PeerState::absent) start(number);
  }
}

}  // namespace gv
