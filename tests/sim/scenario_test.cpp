// Scenarios are read strictly and written back, and random ones depend on the seed alone.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "sim/scenario_text.hpp"
#include "tests/settings_reference.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

ParsedScenario parsed(const std::string& text) {
  return parse_scenario_text(text, "faults.toml", true);
}

std::string all(const Problems& problems) {
  std::string text;
  for (const Problem& problem : problems) text += to_string(problem) + "\n";
  return text;
}

bool mentions(const Problems& problems, const std::string& words) {
  return all(problems).find(words) != std::string::npos;
}

std::string scenario_reference() {
  return "## [scenario]\n\n" + settings_table(scenario_settings<Scenario>()) +
         "\n## [[scenario.speed]]\n\nPeers that compute at another pace; later rules win.\n\n" +
         settings_table(scenario_settings<SpeedRule>()) +
         "\n## [[scenario.link]]\n\nLinks that are not perfect; later rules win.\n\n" +
         settings_table(scenario_settings<LinkRule>()) +
         "\n## [[scenario.fault]]\n\nSomething that goes wrong, once or again and again.\n\n" +
         settings_table(scenario_settings<FaultRule>()) +
         "\n## [[scenario.hostile]]\n\nHostile peers; later rules win. Only for virtual peers in "
         "`mixing` ([guards](algorithms/guards.md)).\n\n" +
         settings_table(scenario_settings<HostileRule>());
}

/// The time and the peers of each start of a fault of this kind, as text.
std::vector<std::string> drawn(const Scenario& scenario, FaultKind kind, std::uint64_t seed) {
  std::vector<std::string> found;
  for (const FaultEvent& fault_event : timeline(scenario, 8, 60s, Rng(seed))) {
    if (fault_event.rule.kind != kind || !fault_event.begins) continue;
    found.push_back(std::to_string(fault_event.at.time_since_epoch().count()) + " " +
                    to_string(fault_event.rule.peers));
  }
  return found;
}

const std::string churn = R"(
[scenario]
[[scenario.fault]]
kind = "kill"
at_s = 1
for_s = 2
every_s = 3
peers = "any"
)";

const std::string stops = R"(
[[scenario.fault]]
kind = "stop"
at_s = 2
every_s = 1
peers = "any 2"
)";

}  // namespace

TEST_CASE("a scenario is read with all its rules") {
  const ParsedScenario read = parsed(R"(
[scenario]
work = "quadratic"
dimension = 12

[[scenario.speed]]
peers = "0-1,3"
factor = 0.5

[[scenario.link]]
from = 0
to = "all"
one_way = true
latency_s = 0.1
bandwidth_mbit = 8

[[scenario.fault]]
kind = "slow_link"
at_s = 5
for_s = 2.5
peers = 1
to = 2
latency_s = 0.2
)");
  INFO(all(read.problems));
  REQUIRE(read.problems.empty());
  CHECK(read.present);
  const Scenario& scenario = read.scenario;
  CHECK(scenario.work == WorkKind::quadratic);
  CHECK(scenario.dimension == 12);
  CHECK(scenario.speed_of(1) == 0.5);
  CHECK(scenario.speed_of(2) == 1);
  CHECK(scenario.link(0, 5).latency == 100ms);
  CHECK(scenario.link(5, 0).latency == 0ms);
  REQUIRE(scenario.faults.size() == 1);
  CHECK(scenario.faults[0].lasts == 2500ms);
  CHECK(scenario.faults[0].quality.latency == 200ms);
}

TEST_CASE("what a scenario says is written so that it reads back the same") {
  const ParsedScenario read = parsed(churn + stops + R"(
[[scenario.link]]
from = "0-3"
to = 7
one_way = true
jitter_s = 0.25
loss = 0.125
[[scenario.fault]]
kind = "corrupt"
probability = 0.5
to = 4
[[scenario.speed]]
peers = "2,4-5"
factor = 0.25
)");
  INFO(all(read.problems));
  REQUIRE(read.problems.empty());
  const std::string text = to_toml(read.scenario);
  const ParsedScenario again = parsed(text);
  INFO(text << all(again.problems));
  REQUIRE(again.problems.empty());
  CHECK(to_toml(again.scenario) == text);
  CHECK(again.scenario.faults.size() == 3);
  CHECK(again.scenario.link(1, 7).loss == 0.125);
  CHECK(drawn(again.scenario, FaultKind::kill, 5) == drawn(read.scenario, FaultKind::kill, 5));
}

TEST_CASE("every mistake in a scenario is reported at once with its line") {
  const ParsedScenario read = parsed(R"([scenario]
peeers = 3
[[scenario.fault]]
at_s = 3
[[scenario.fault]]
kind = "kil"
[[scenario.fault]]
kind = "kill"
probability = 0.5
[[scenario.fault]]
kind = "loss"
[[scenario.fault]]
kind = "stop"
peers = "3-1"
[[scenario.link]]
latency_ms = 3
[[scenario.fault]]
kind = "partition"
[train]
batch = 3
)");
  INFO(all(read.problems));
  CHECK(mentions(read.problems, "faults.toml:2: scenario.peeers: unknown key"));
  CHECK(mentions(read.problems, "the nearest valid one is peers"));
  CHECK(mentions(read.problems, "a fault without a kind"));
  CHECK(mentions(read.problems, "scenario.fault[1].kind"));
  CHECK(mentions(read.problems, "faults.toml:9: scenario.fault[2].probability: has no effect"));
  CHECK(mentions(read.problems, "loss without a probability"));
  CHECK(mentions(read.problems, "scenario.fault[4].peers: not a set of peers"));
  CHECK(mentions(read.problems, "scenario.link[0].latency_ms: unknown key"));
  CHECK(mentions(read.problems, "partition without peers on one side"));
  CHECK(mentions(read.problems, "train: does not belong in a file of faults"));
  CHECK(read.problems.size() == 9);
}

TEST_CASE("a config may hold a scenario beside its other sections") {
  const std::string text = "[run]\nsteps = 3\n" + churn;
  CHECK(parse_scenario_text(text, "run.toml", false).problems.empty());
  CHECK(parse_scenario_text(text, "run.toml", false).scenario.faults.size() == 1);
  CHECK_FALSE(parse_scenario_text("[run]\nsteps = 3\n", "run.toml", false).present);
}

TEST_CASE("a file that is not there or far too long is a problem and no crash") {
  CHECK(mentions(parse_scenario_file("/nowhere/faults.toml", true).problems,
                 "no such scenario file"));
}

TEST_CASE("sets of peers are read and written as people write them") {
  for (const char* text : {"all", "3", "0-15", "1,4,7-9", "any", "any 3"}) {
    const auto set = PeerSet::parse(text);
    REQUIRE(set);
    CHECK(to_string(*set) == text);
  }
  CHECK(PeerSet::parse("1,4,7-9")->contains(8));
  CHECK_FALSE(PeerSet::parse("1,4,7-9")->contains(5));
  for (const char* text : {"", "x", "3-", "-3", "4-2", "1,,2", "any 0", "1 2", "99999999999"}) {
    INFO(text);
    CHECK_FALSE(PeerSet::parse(text));
  }
}

TEST_CASE("equal seeds draw equal faults and other seeds others") {
  const Scenario scenario = parsed(churn).scenario;
  const auto first = drawn(scenario, FaultKind::kill, 7);
  CHECK(first.size() > 5);
  CHECK(first == drawn(scenario, FaultKind::kill, 7));
  CHECK(first != drawn(scenario, FaultKind::kill, 8));
}

TEST_CASE("one rule's draws do not disturb another's") {
  const auto alone = drawn(parsed(churn).scenario, FaultKind::kill, 7);
  CHECK(alone == drawn(parsed(churn + stops).scenario, FaultKind::kill, 7));
}

TEST_CASE("a timeline is in order and every end belongs to a beginning") {
  const Scenario scenario = parsed(churn + stops).scenario;
  const auto all_of_it = timeline(scenario, 8, 60s, Rng(3));
  CHECK(std::ranges::is_sorted(all_of_it, {}, &FaultEvent::at));
  std::vector<std::size_t> open;
  for (const FaultEvent& fault_event : all_of_it) {
    CHECK(fault_event.rule.peers.any == 0);
    if (fault_event.begins && fault_event.rule.lasts > Duration{})
      open.push_back(fault_event.fault);
    if (!fault_event.begins) CHECK(std::erase(open, fault_event.fault) == 1);
    if (fault_event.begins) CHECK(fault_event.at <= Time(60s));
  }
  CHECK(open.empty());
}

TEST_CASE("repetitions end where the rule says and happen as often as it says in the mean") {
  const Scenario scenario = parsed(R"(
[scenario]
[[scenario.fault]]
kind = "restart"
every_s = 0.5
until_s = 500
peers = "any"
)")
                                .scenario;
  const auto fault_events = timeline(scenario, 8, 3600s, Rng(3));
  // The mean is a thousand and the standard deviation about 32. The test allows six standard
  // deviations in either direction.
  CHECK(fault_events.size() > 800);
  CHECK(fault_events.size() < 1200);
  CHECK(fault_events.back().at <= Time(500s));
}

TEST_CASE("a rule that repeats often takes no faults from the rules after it") {
  const std::string often = R"(
[scenario]
[[scenario.fault]]
kind = "loss"
for_s = 0.001
every_s = 0.005
probability = 0.01
)";
  const Scenario scenario = parsed(often + stops).scenario;
  const auto fault_events = timeline(scenario, 8, 600s, Rng(3));
  REQUIRE(fault_events.size() > 100000);
  const auto stop = [](const FaultEvent& one) { return one.rule.kind == FaultKind::stop; };
  CHECK(std::ranges::count_if(fault_events, stop) > 400);
  CHECK(std::ranges::count_if(fault_events, stop) < 800);
  CHECK_FALSE(mentions(problems_with_rules(scenario, 8, 300s, "f.toml"), "repeated"));
  CHECK(mentions(problems_with_rules(scenario, 8, 600s, "f.toml"),
                 "f.toml: scenario.fault[0]: would be repeated about 120000 times in 600 s"));
}

TEST_CASE("a wait beyond the range of times ends the repetitions") {
  Scenario scenario;
  scenario.faults = {{.kind = FaultKind::restart, .at = 1s, .every = Duration::max()}};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CHECK(timeline(scenario, 8, 60s, Rng(seed)).size() == 1);
  }
}

TEST_CASE("keys without an effect and faults that never begin are refused") {
  const ParsedScenario read = parsed(R"(
[scenario]
[[scenario.fault]]
kind = "kill"
at_s = 50
until_s = 10
[[scenario.fault]]
kind = "heal"
peers = 1
[[scenario.fault]]
kind = "heal"
for_s = 3
[[scenario.fault]]
kind = "restart"
for_s = 2
[[scenario.fault]]
kind = "join"
for_s = 2
)");
  INFO(all(read.problems));
  CHECK(mentions(read.problems, "scenario.fault[0]: until_s is earlier than at_s"));
  CHECK(mentions(read.problems, "scenario.fault[1].peers: has no effect here"));
  CHECK(mentions(read.problems, "scenario.fault[2].for_s: has no effect here"));
  CHECK(mentions(read.problems, "scenario.fault[3].for_s: has no effect here"));
  CHECK(mentions(read.problems, "scenario.fault[4].for_s: has no effect here"));
  CHECK(read.problems.size() == 5);
}

TEST_CASE("rules that name peers which do not exist are refused wherever they name them") {
  const ParsedScenario read = parsed(R"(
[scenario]
[[scenario.speed]]
peers = 40
factor = 0.5
[[scenario.link]]
from = 41
[[scenario.link]]
to = "0,42"
[[scenario.fault]]
kind = "cut"
peers = "0-3"
to = "3-60"
)");
  REQUIRE(read.problems.empty());
  const Problems problems = problems_with_rules(read.scenario, 4, 60s, "f.toml");
  INFO(all(problems));
  CHECK(mentions(problems, "f.toml: scenario.speed[0]: there is no peer 40 among 4"));
  CHECK(mentions(problems, "f.toml: scenario.link[0]: there is no peer 41 among 4"));
  CHECK(mentions(problems, "f.toml: scenario.link[1]: there is no peer 42 among 4"));
  CHECK(mentions(problems, "f.toml: scenario.fault[0]: there is no peer 60 among 4"));
  CHECK(problems.size() == 4);
}

TEST_CASE("the peers of random speeds and links are drawn once from the seed") {
  const Scenario written = parsed(R"(
[scenario]
[[scenario.speed]]
peers = "any 2"
factor = 0.5
[[scenario.link]]
from = "any 3"
to = "any 7"
loss = 0.5
)")
                               .scenario;
  const auto drawn_from = [&](std::uint64_t seed) {
    Scenario scenario = written;
    draw_rules(scenario, 8, seed);
    return scenario;
  };
  const Scenario scenario = drawn_from(7);
  std::size_t slow = 0;
  std::size_t lossy = 0;
  for (std::size_t peer = 0; peer < 8; ++peer) {
    slow += scenario.speed_of(peer) == 0.5 ? 1 : 0;
    for (std::size_t other = 0; other < 8; ++other) lossy += scenario.link(peer, other).loss > 0;
  }
  CHECK(slow == 2);
  CHECK(lossy >= 3 * 7);
  CHECK(to_toml(scenario) == to_toml(drawn_from(7)));
  CHECK(to_toml(scenario) != to_toml(drawn_from(8)));
  Scenario again = scenario;
  draw_rules(again, 8, 9);  // Rules that have been drawn are not drawn again.
  CHECK(to_toml(again) == to_toml(scenario));
}

TEST_CASE("a fault is told to people in a line") {
  const auto fault_events = timeline(parsed(R"(
[scenario]
[[scenario.fault]]
kind = "kill"
at_s = 1
for_s = 2.5
peers = 3
[[scenario.fault]]
kind = "loss"
at_s = 2
probability = 0.05
peers = "0-3"
to = 4
)")
                                         .scenario,
                                     8, 60s, Rng(1));
  REQUIRE(fault_events.size() == 3);
  CHECK(to_string(fault_events[0]) == "kill 3 for 2.5 s");
  CHECK(to_string(fault_events[1]) == "loss 0-3 to 4 5 %");
  CHECK(to_string(fault_events[2]) == "end of kill 3");
}

TEST_CASE("every file of faults that comes along is sound") {
  std::size_t files = 0;
  const std::filesystem::path folder =
      std::filesystem::path(GRAPEVINE_SOURCE_DIR) / "configs" / "faults";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const ParsedScenario read = parse_scenario_file(entry.path().string(), true);
    INFO(entry.path() << "\n" << all(read.problems));
    CHECK(read.problems.empty());
    CHECK(read.present);
    ++files;
  }
  CHECK(files >= 4);
}

TEST_CASE("the page of scenarios says what the tables of scenarios say") {
  const std::string page = std::string(GRAPEVINE_SOURCE_DIR) + "/docs/scenarios.md";
  const std::string expected =
      "# Scenarios\n\nThe keys of a `[scenario]`, for `grapevine sim` and `grapevine launch "
      "--faults`. "
      "Their use is explained in\n[simulator.md](simulator.md) and "
      "[faults.md](faults.md).\n\n" +
      scenario_reference();
  // Set this variable to rewrite the page, and then read the diff.
  if (std::getenv("GRAPEVINE_REWRITE") != nullptr) std::ofstream(page) << expected;
  std::ifstream in(page);
  const std::string written((std::istreambuf_iterator<char>(in)), {});
  CHECK(written == expected);
}

}  // namespace gv
