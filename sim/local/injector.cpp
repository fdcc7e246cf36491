// Turns fault events into signals, process starts and bad links.
#include "sim/local/injector.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "peer/config/switched_mode.hpp"

namespace gv {
namespace {

using State = LaunchedPeer::State;

bool is_virtual_only(FaultKind kind) {
  return kind == FaultKind::clock_jump || kind == FaultKind::clock_rate ||
         kind == FaultKind::disk_full || kind == FaultKind::slow_disk || kind == FaultKind::revoke;
}

}  // namespace

Problems problems_on_processes(const Scenario& scenario, std::size_t peers, LaneKind lane,
                               const std::string& place) {
  Problems problems = problems_with_rules(scenario, peers, faults_end, place);
  const auto item = [&](const char* list, std::size_t i) {
    return fmt::format("{}: scenario.{}[{}]", place, list, i);
  };
  for (std::size_t i = 0; i < scenario.speeds.size(); ++i) {
    if (scenario.speeds[i].factor > 1) {
      problems.push_back({item("speed", i), "a real process cannot be made faster",
                          "give the other peers a factor below 1"});
    }
  }
  bool corrupts = false;
  for (const LinkRule& rule : scenario.links) corrupts = corrupts || rule.quality.corrupt > 0;
  for (std::size_t i = 0; i < scenario.faults.size(); ++i) {
    const FaultRule& rule = scenario.faults[i];
    const std::string name(to_string(rule.kind));
    if (is_virtual_only(rule.kind)) {
      problems.push_back({item("fault", i), name + " can only befall virtual peers",
                          "run it with grapevine sim, or remove it"});
      continue;
    }
    if (rule.kind == FaultKind::slow_cpu && rule.factor > 1) {
      problems.push_back({item("fault", i), "a real process cannot be made faster",
                          "give slow_cpu a factor below 1"});
    }
    corrupts = corrupts || rule.kind == FaultKind::corrupt;
  }
  for (std::size_t i = 0; i < scenario.hostile.size(); ++i) {
    problems.push_back({item("hostile", i), "only virtual peers can be hostile",
                        "run it with grapevine sim, or remove it"});
  }
  if (scenario.tickets) {
    problems.push_back({place + ": scenario.tickets", "launched peers have an allow-list",
                        "remove it, or use `grapevine create` and `grapevine join`"});
  }
  if (to_string(scenario.saboteurs) != to_string(PeerSet{})) {
    problems.push_back({place + ": scenario.saboteurs", "only virtual peers can be hostile",
                        "run it with grapevine sim, or remove it"});
  }
  if (has_bad_links(scenario) && lane == LaneKind::unix_socket) {
    problems.push_back({"network.lane", "Unix sockets pass by the proxy that makes links bad",
                        "write lane = \"auto\" or \"tls\""});
  }
  if (corrupts && lane == LaneKind::plain) {
    problems.push_back({"network.lane", "on plain lanes no peer notices a damaged byte",
                        "write lane = \"auto\" or \"tls\", or leave corruption out"});
  }
  return problems;
}

std::string to_string(const SkippedFault& skipped) {
  return fmt::format("{} at {:g} s ({})", to_string(skipped.kind), skipped.at_s, skipped.why);
}

bool has_bad_links(const Scenario& scenario) {
  return !scenario.links.empty() || std::ranges::any_of(scenario.faults, [](const FaultRule& rule) {
    return is_of_links(rule.kind) && rule.kind != FaultKind::heal;
  });
}

Injector::Injector(asio::io_context& io, std::vector<FaultEvent> timeline,
                   std::deque<LaunchedPeer>& peers, Calls calls)
    : timeline_(std::move(timeline)), peers_(peers), calls_(std::move(calls)), timer_(io) {}

bool Injector::joins_late(std::size_t peer) const {
  return std::ranges::any_of(timeline_, [&](const FaultEvent& fault_event) {
    return fault_event.rule.kind == FaultKind::join && fault_event.rule.peers.contains(peer);
  });
}

void Injector::begin() {
  began_ = std::chrono::steady_clock::now();
  wait();
}

void Injector::cancel() {
  for (; next_ < timeline_.size(); ++next_) {
    const FaultEvent& coming = timeline_[next_];
    const bool is_first = coming.at == Time(coming.rule.at);
    if (coming.begins && is_first) skip(coming, "the run ended first");
  }
  timer_.cancel();
}

void Injector::wait() {
  if (is_over()) return;
  timer_.expires_at(began_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                 timeline_[next_].at.time_since_epoch()));
  timer_.async_wait([this](asio::error_code error) {
    if (error || is_over()) return;
    inject(timeline_[next_++]);
    wait();
  });
}

void Injector::inject(const FaultEvent& fault_event) {
  const FaultKind kind = fault_event.rule.kind;
  bool has_effect = is_of_links(kind);
  std::string missed;  // Why the fault has no effect on some of the peers that it names.
  if (has_effect) {
    calls_.links(fault_event);
  } else {
    for (std::size_t number = 0; number < peers_.size(); ++number) {
      if (!fault_event.rule.peers.contains(number)) continue;
      const bool done =
          fault_event.begins ? apply_to(fault_event, number) : revert(fault_event, number);
      has_effect = has_effect || done;
      if (!done) missed += (missed.empty() ? "" : ", ") + why_not(kind, number);
    }
  }
  const std::string line = fmt::format("{:6.1f} s  {}", seconds(fault_event.at.time_since_epoch()),
                                       to_string(fault_event));
  if (!fault_event.begins) {
    // The end of a skipped fault is not reported.
    if (has_effect) calls_.tell(line);
    return;
  }
  if (!has_effect) {
    calls_.tell(fmt::format("{}: skipped, {}", line, missed));
    return skip(fault_event, std::move(missed));
  }
  ++counts_[std::string(to_string(kind))];
  calls_.tell(missed.empty() ? line : fmt::format("{} ({})", line, missed));
}

void Injector::skip(const FaultEvent& fault_event, std::string why) {
  skipped_.push_back({.kind = fault_event.rule.kind,
                      .at_s = seconds(fault_event.at.time_since_epoch()),
                      .why = std::move(why)});
}

/// Says why a fault of this kind could not be applied to the peer.
std::string Injector::why_not(FaultKind kind, std::size_t number) {
  LaunchedPeer& peer = peers_[number];
  const auto reason = [&]() -> std::string_view {
    switch (peer.state()) {
      case State::absent:
        return "had not joined yet";
      case State::taken:
        return "was down";
      case State::ended:
        return "had ended";
      case State::running:
        break;
    }
    if (kind == FaultKind::join) return "had joined before";
    return kind == FaultKind::resume ? "was not stopped" : "was stopped";
  };
  return fmt::format("{} {}", peer.name(), reason());
}

bool Injector::apply_to(const FaultEvent& fault_event, std::size_t number) {
  LaunchedPeer& peer = peers_[number];
  const bool can_start = peer.state() == State::taken || peer.state() == State::running;
  switch (fault_event.rule.kind) {
    case FaultKind::kill:
      return peer.kill(fault_event.fault);
    case FaultKind::restart:
      if (can_start) calls_.start(number, true);
      return can_start;
    case FaultKind::stop:
      return peer.stop(fault_event.fault);
    case FaultKind::resume:
      return peer.wake();
    case FaultKind::leave:
      return peer.leave(fault_event.fault);
    case FaultKind::join:
      if (peer.state() != State::absent) return false;
      calls_.start(number, false);
      return true;
    case FaultKind::switch_to:
      if (peer.state() != State::running || peer.is_stopped()) return false;
      calls_.switch_to(number, settings_of(fault_event.rule.algorithm));
      return true;
    case FaultKind::slow_cpu:
      // A peer that is down or has not started yet will be slow once it runs.
      peer.slow(fault_event.fault, fault_event.rule.factor);
      return peer.state() != State::ended;
    default:
      return false;
  }
}

/// Ends the effect of `fault_event` on this peer. Returns false if that changes nothing.
bool Injector::revert(const FaultEvent& fault_event, std::size_t number) {
  LaunchedPeer& peer = peers_[number];
  switch (fault_event.rule.kind) {
    case FaultKind::kill:
    case FaultKind::leave: {
      const bool still = peer.taken_by() == fault_event.fault;
      if (still) calls_.start(number, true);
      return still;
    }
    case FaultKind::stop:
      if (!peer.is_stopped()) return false;
      peer.wake(fault_event.fault);
      return true;
    case FaultKind::slow_cpu:
      peer.slow_no_more(fault_event.fault);
      return peer.state() == State::running;
    default:
      return false;
  }
}

bool Injector::will_revive() const {
  for (std::size_t i = next_; i < timeline_.size(); ++i) {
    const FaultEvent& coming = timeline_[i];
    for (std::size_t number = 0; number < peers_.size(); ++number) {
      if (!coming.rule.peers.contains(number)) continue;
      LaunchedPeer& peer = peers_[number];
      const bool taken = peer.state() == State::taken;
      switch (coming.rule.kind) {
        case FaultKind::join:
          if (coming.begins && peer.state() == State::absent) return true;
          break;
        case FaultKind::restart:
          if (coming.begins && taken) return true;
          break;
        case FaultKind::resume:
          if (coming.begins && peer.is_stopped()) return true;
          break;
        case FaultKind::kill:
        case FaultKind::leave:
          if (!coming.begins && taken && peer.taken_by() == coming.fault) return true;
          break;
        case FaultKind::stop:
          if (!coming.begins && peer.is_stopped()) return true;
          break;
        default:
          break;
      }
    }
  }
  return false;
}

}  // namespace gv
