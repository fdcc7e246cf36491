// Finds the peers that a scenario's rules name, and draws the times of its faults.
#include "sim/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

namespace gv {
namespace {

constexpr std::size_t fault_events_max = 100000;

/// The peers of `set` as a list of numbers. Draws them if the set is random.
PeerSet drawn(const PeerSet& set, std::size_t peers, Rng& rng) {
  if (set.any == 0) return set;
  std::vector<std::size_t> numbers(peers);
  for (std::size_t i = 0; i < peers; ++i) numbers[i] = i;
  rng.shuffle(std::span(numbers));
  numbers.resize(std::min(set.any, peers));
  std::ranges::sort(numbers);
  PeerSet named;
  for (const std::size_t number : numbers) named.ranges.emplace_back(number, number);
  return named;
}

}  // namespace

bool PeerSet::contains(std::size_t peer) const {
  return all || std::ranges::any_of(ranges, [&](const auto& range) {
           return range.first <= peer && peer <= range.second;
         });
}

std::optional<PeerSet> PeerSet::parse(std::string_view text) {
  if (text == "all") return everyone();
  const auto number = [](std::string_view digits) -> std::optional<std::size_t> {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool whole = error == std::errc() && end == digits.data() + digits.size();
    return whole && value < scenario_peers_max ? std::optional(value) : std::nullopt;
  };
  if (text == "any") return PeerSet{.any = 1};
  if (text.starts_with("any ")) {
    const auto count = number(text.substr(4));
    return count && *count > 0 ? std::optional(PeerSet{.any = *count}) : std::nullopt;
  }
  PeerSet set;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    const auto dash = part.find('-');
    const auto first = number(part.substr(0, dash));
    const auto last = dash == part.npos ? first : number(part.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    set.ranges.emplace_back(*first, *last);
    text.remove_prefix(part.size());
    if (text.empty()) return set;
    text.remove_prefix(1);
  }
  return std::nullopt;
}

std::string to_string(const PeerSet& set) {
  if (set.all) return "all";
  if (set.any > 0) return set.any == 1 ? "any" : fmt::format("any {}", set.any);
  std::string text;
  for (const auto& [first, last] : set.ranges) {
    text += text.empty() ? "" : ",";
    text += first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
  }
  return text;
}

bool is_chance(FaultKind kind) {
  return kind == FaultKind::loss || kind == FaultKind::duplicate || kind == FaultKind::reorder ||
         kind == FaultKind::corrupt;
}

bool has_two_ends(FaultKind kind) {
  return is_chance(kind) || kind == FaultKind::cut || kind == FaultKind::clog ||
         kind == FaultKind::slow_link;
}

bool is_of_links(FaultKind kind) {
  return has_two_ends(kind) || kind == FaultKind::partition || kind == FaultKind::heal;
}

double Scenario::speed_of(std::size_t peer) const {
  double factor = 1;
  for (const SpeedRule& rule : speeds) {
    if (rule.peers.contains(peer)) factor = rule.factor;
  }
  return factor;
}

LinkQuality Scenario::link(std::size_t from, std::size_t to) const {
  LinkQuality quality;
  for (const LinkRule& rule : links) {
    const bool forth = rule.from.contains(from) && rule.to.contains(to);
    const bool back = !rule.one_way && rule.from.contains(to) && rule.to.contains(from);
    if (forth || back) quality = rule.quality;
  }
  return quality;
}

std::vector<FaultEvent> timeline(const Scenario& scenario, std::size_t peers, Duration end,
                                 Rng rng) {
  std::vector<FaultEvent> all;
  std::size_t count = 0;
  for (std::size_t number = 0; number < scenario.faults.size(); ++number) {
    const FaultRule& rule = scenario.faults[number];
    // Each rule has its own random stream, so that adding a rule does not change the others.
    Rng draws = rng.fork(number);
    const Duration last = std::min(rule.until, end);
    for (Duration at = rule.at; at <= last && all.size() < fault_events_max;) {
      FaultEvent fault_event{.at = Time(at), .fault = count++, .rule = rule};
      fault_event.rule.peers = drawn(rule.peers, peers, draws);
      fault_event.rule.to = drawn(rule.to, peers, draws);
      all.push_back(fault_event);
      if (rule.lasts > Duration{}) {
        fault_event.at = Time(at + rule.lasts);
        fault_event.begins = false;
        all.push_back(fault_event);
      }
      if (rule.every == Duration{}) break;
      const double wait = -std::log(1 - draws.uniform()) * seconds(rule.every);
      at += std::max(from_seconds(wait), Duration(std::chrono::milliseconds(1)));
    }
  }
  std::ranges::stable_sort(all, {}, &FaultEvent::at);
  return all;
}

bool has_switches(const Scenario& scenario) {
  return std::ranges::any_of(
      scenario.faults, [](const FaultRule& rule) { return rule.kind == FaultKind::switch_to; });
}

std::map<std::size_t, HostileRule> hostile_peers(const Scenario& scenario, std::size_t peers,
                                                 std::uint64_t seed) {
  std::map<std::size_t, HostileRule> hostile;
  for (std::size_t number = 0; number < scenario.hostile.size(); ++number) {
    Rng draws = Rng(seed).fork("hostile").fork(number);
    HostileRule rule = scenario.hostile[number];
    rule.peers = drawn(rule.peers, peers, draws);
    for (std::size_t peer = 0; peer < peers; ++peer) {
      if (rule.peers.contains(peer)) hostile.insert_or_assign(peer, rule);
    }
  }
  return hostile;
}

std::string to_string(const FaultEvent& fault_event) {
  const FaultRule& rule = fault_event.rule;
  std::string text(fault_event.begins ? "" : "end of ");
  text += to_string(rule.kind);
  if (rule.kind != FaultKind::heal) text += " " + to_string(rule.peers);
  if (has_two_ends(rule.kind)) text += " to " + to_string(rule.to);
  if (rule.kind == FaultKind::revoke) text += " revokes " + to_string(rule.to);
  if (rule.kind == FaultKind::switch_to) text += " to " + rule.algorithm;
  if (is_chance(rule.kind)) text += fmt::format(" {:g} %", 100 * rule.probability);
  if (fault_event.begins && rule.lasts > Duration{}) {
    text += fmt::format(" for {:g} s", seconds(rule.lasts));
  }
  return text;
}

}  // namespace gv
