// Finds the peers that a scenario's rules name, and draws the times of its faults.
#include "sim/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

namespace gv {
namespace {

/// The largest number of times that one rule's fault may begin. Each of them takes memory from the
/// start of the run.
constexpr std::size_t repetitions_max = 100000;
/// A rule is refused if its expected number of repetitions is above this limit. The drawn number is
/// then at most `repetitions_max`, because it deviates only a little from the expected one.
constexpr double repetitions_expected_max = 90000;
constexpr Duration shortest_wait = std::chrono::milliseconds(1);

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

void check_numbers(const PeerSet& set, std::size_t peers, const std::string& place,
                   Problems& problems) {
  for (const auto& [first, last] : set.ranges) {
    if (last < peers) continue;
    problems.push_back({place, fmt::format("there is no peer {} among {}", last, peers),
                        fmt::format("peers are numbered from 0 to {}", peers - 1)});
    return;
  }
}

}  // namespace

bool PeerSet::contains(std::size_t peer) const {
  return all || std::ranges::any_of(ranges, [&](const auto& range) {
           return range.first <= peer && peer <= range.second;
         });
}

void PeerSet::keep_below(std::size_t peers) {
  std::erase_if(ranges, [peers](const auto& range) { return range.first >= peers; });
  for (auto& range : ranges) range.second = std::min(range.second, peers - 1);
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

bool may_last(FaultKind kind) {
  return kind != FaultKind::restart && kind != FaultKind::resume && kind != FaultKind::join &&
         kind != FaultKind::heal && kind != FaultKind::switch_to && kind != FaultKind::revoke;
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

void draw_rules(Scenario& scenario, std::size_t peers, std::uint64_t seed) {
  // Each rule has its own random stream, so that adding a rule does not change the others.
  for (std::size_t number = 0; number < scenario.speeds.size(); ++number) {
    Rng draws = Rng(seed).fork("speeds").fork(number);
    PeerSet& set = scenario.speeds[number].peers;
    set = drawn(set, peers, draws);
  }
  for (std::size_t number = 0; number < scenario.links.size(); ++number) {
    Rng draws = Rng(seed).fork("links").fork(number);
    LinkRule& rule = scenario.links[number];
    rule.from = drawn(rule.from, peers, draws);
    rule.to = drawn(rule.to, peers, draws);
  }
}

void drop_missing_peers(Scenario& scenario, std::size_t peers) {
  for (SpeedRule& rule : scenario.speeds) rule.peers.keep_below(peers);
  for (LinkRule& rule : scenario.links) {
    rule.from.keep_below(peers);
    rule.to.keep_below(peers);
  }
  std::erase_if(scenario.speeds, [](const SpeedRule& rule) { return rule.peers.is_empty(); });
  std::erase_if(scenario.links,
                [](const LinkRule& rule) { return rule.from.is_empty() || rule.to.is_empty(); });
}

Problems problems_with_rules(const Scenario& scenario, std::size_t peers, Duration end,
                             const std::string& place) {
  Problems problems;
  const auto item = [&](const char* list, std::size_t i) {
    return fmt::format("{}: scenario.{}[{}]", place, list, i);
  };
  for (std::size_t i = 0; i < scenario.speeds.size(); ++i) {
    check_numbers(scenario.speeds[i].peers, peers, item("speed", i), problems);
  }
  for (std::size_t i = 0; i < scenario.links.size(); ++i) {
    check_numbers(scenario.links[i].from, peers, item("link", i), problems);
    check_numbers(scenario.links[i].to, peers, item("link", i), problems);
  }
  for (std::size_t i = 0; i < scenario.faults.size(); ++i) {
    const FaultRule& rule = scenario.faults[i];
    check_numbers(rule.peers, peers, item("fault", i), problems);
    check_numbers(rule.to, peers, item("fault", i), problems);
    const Duration last = std::min(rule.until, end);
    const double times = seconds(last - rule.at) / seconds(std::max(rule.every, shortest_wait));
    if (rule.every == Duration{} || times <= repetitions_expected_max) continue;
    problems.push_back(
        {item("fault", i),
         fmt::format("would be repeated about {:.0f} times in {:g} s, more than {:.0f}", times,
                     seconds(last - rule.at), repetitions_expected_max),
         "write a larger every_s or a smaller until_s"});
  }
  return problems;
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
    std::size_t repetitions = 0;
    for (Duration at = rule.at; at <= last && repetitions < repetitions_max; ++repetitions) {
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
      if (wait > seconds(last - at) + 1) break;  // A long wait could exceed the range of times.
      at += std::max(from_seconds(wait), shortest_wait);
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
