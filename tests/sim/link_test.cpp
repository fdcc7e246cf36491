// Links between real processes, without the sockets: which faults are active, and their delays.
#include <catch2/catch.hpp>

#include "sim/link_faults.hpp"
#include "sim/local/injector.hpp"
#include "sim/local/link_pace.hpp"
#include "sim/scenario_text.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

Scenario scenario_of(const std::string& text) {
  const ParsedScenario parsed = parse_scenario_text("[scenario]\n" + text, "test", true);
  for (const Problem& problem : parsed.problems) FAIL(to_string(problem));
  return parsed.scenario;
}

/// Begins the faults in `text` one after the other.
LinkFaults begun(const std::string& text) {
  const Scenario scenario = scenario_of(text);
  LinkFaults faults(scenario);
  for (const FaultEvent& fault_event : timeline(scenario, 4, 10s, Rng(1))) {
    if (fault_event.begins) faults.apply(fault_event);
  }
  return faults;
}

std::string fault(const std::string& body) { return "[[scenario.fault]]\n" + body; }

}  // namespace

TEST_CASE("a partition holds what crosses it both ways and nothing else") {
  const LinkFaults faults = begun(fault("kind = \"partition\"\npeers = \"0-1\"\n"));
  CHECK(faults.between(0, 2).held());
  CHECK(faults.between(3, 1).held());
  CHECK_FALSE(faults.between(0, 1).held());
  CHECK_FALSE(faults.between(3, 2).held());
}

TEST_CASE("a cut holds one direction and a clog both") {
  const LinkFaults cut = begun(fault("kind = \"cut\"\npeers = 0\nto = 1\n"));
  CHECK(cut.between(0, 1).held());
  CHECK_FALSE(cut.between(1, 0).held());
  const LinkFaults clog = begun(fault("kind = \"clog\"\nfor_s = 1\npeers = 0\nto = 1\n"));
  CHECK(clog.between(0, 1).held());
  CHECK(clog.between(1, 0).held());
  CHECK_FALSE(clog.between(0, 2).held());
}

TEST_CASE("faults add to what a link is like and their ends take only their own away") {
  const Scenario scenario = scenario_of(R"(
[[scenario.link]]
latency_s = 0.1
bandwidth_mbit = 100
loss = 0.5
[[scenario.fault]]
kind = "loss"
for_s = 1
probability = 0.5
[[scenario.fault]]
kind = "slow_link"
at_s = 0.5
for_s = 2
latency_s = 0.2
bandwidth_mbit = 10
)");
  LinkFaults faults(scenario);
  const auto fault_events = timeline(scenario, 4, 10s, Rng(1));
  REQUIRE(fault_events.size() == 4);
  faults.apply(fault_events[0]);
  faults.apply(fault_events[1]);
  LinkQuality quality = faults.between(0, 1).quality;
  CHECK(quality.loss == Approx(0.75));
  CHECK(quality.latency == 300ms);
  CHECK(quality.bandwidth == 10);
  faults.apply(fault_events[2]);
  quality = faults.between(0, 1).quality;
  CHECK(quality.loss == 0.5);
  CHECK(quality.latency == 300ms);
  faults.apply(fault_events[3]);
  CHECK(faults.between(0, 1).quality.bandwidth == 100);
}

TEST_CASE("healing ends every fault of links and leaves links as the scenario has them") {
  const Scenario scenario = scenario_of(
      "[[scenario.link]]\nloss = 0.25\n" + fault("kind = \"partition\"\npeers = 0\n") +
      fault("kind = \"corrupt\"\nprobability = 1\n") + fault("kind = \"heal\"\nat_s = 1\n"));
  LinkFaults faults(scenario);
  const auto fault_events = timeline(scenario, 4, 10s, Rng(1));
  faults.apply(fault_events[0]);
  faults.apply(fault_events[1]);
  CHECK(faults.between(0, 1).held());
  CHECK(faults.between(0, 1).quality.corrupt == 1);
  faults.apply(fault_events[2]);
  CHECK_FALSE(faults.between(0, 1).held());
  CHECK(faults.between(0, 1).quality.corrupt == 0);
  CHECK(faults.between(0, 1).quality.loss == 0.25);
}

TEST_CASE("a lost segment stands still for 200 ms and twice as long when it is lost again") {
  LinkPace pace(Rng(1));
  LinkQuality quality{.latency = 10ms, .loss = 0.5};
  Duration expected{};
  bool twice = false;
  for (int i = 0; i < 100; ++i) {
    const Time now(i * 1000s);
    const SegmentFate fate = pace.send(now, 100, quality, now);
    expected = 10ms;
    for (std::uint32_t lost = 0; lost < fate.losses; ++lost) expected += 200ms * (1 << lost);
    CHECK(fate.due - now == expected);
    twice = twice || fate.losses > 1;
  }
  CHECK(twice);
  quality.loss = 1;
  CHECK(pace.send(Time{}, 100, quality, Time{}).losses == 8);
}

TEST_CASE("a repeated segment is paid for twice and an overtaken one waits a little") {
  LinkPace pace(Rng(1));
  // At one megabit a second, a hundred bytes take 0.8 ms.
  CHECK(pace.send(Time{}, 100, {.bandwidth = 1}, Time{}).due == Time(800us));
  CHECK(pace.backlog(Time{}) == 800us);
  CHECK(pace.send(Time{}, 100, {.bandwidth = 1, .duplicate = 1}, Time{}).due == Time(2400us));
  const SegmentFate overtaken = pace.send(Time(1s), 100, {.reorder = 1}, Time{});
  CHECK(overtaken.reordered);
  CHECK(overtaken.due == Time(1s) + 10ms);
  CHECK(pace.backlog(Time(1s)) == 0s);
}

TEST_CASE("a link too slow to carry anything delivers never and not at once") {
  LinkPace pace(Rng(1));
  const LinkQuality quality{.latency = 10ms, .bandwidth = 1e-15};
  for (int i = 0; i < 3; ++i) CHECK(pace.send(Time(1s), 100, quality, Time{}).due == never);
  CHECK(pace.backlog(Time(1s)) == never - Time(1s));
}

TEST_CASE("nothing overtakes on one connection however uneven the delays") {
  LinkPace pace(Rng(3));
  const LinkQuality quality{.latency = 5ms, .jitter = 50ms, .loss = 0.1, .reorder = 0.3};
  Time last{};
  bool waited = false;
  for (int i = 0; i < 1000; ++i) {
    const Time now(i * 1ms);
    const SegmentFate fate = pace.send(now, 10, quality, last);
    CHECK(fate.due >= last);
    waited = waited || fate.due == last;
    last = fate.due;
  }
  CHECK(waited);
}

TEST_CASE("damage changes one byte inside the segment and equal seeds draw it alike") {
  LinkPace pace(Rng(9));
  LinkPace same(Rng(9));
  for (std::size_t bytes = 1; bytes < 200; ++bytes) {
    const SegmentFate fate = pace.send(Time{}, bytes, {.corrupt = 1}, Time{});
    REQUIRE(fate.damaged);
    CHECK(*fate.damaged < bytes);
    CHECK(fate.damage != 0);
    const SegmentFate other = same.send(Time{}, bytes, {.corrupt = 1}, Time{});
    CHECK(other.damaged == fate.damaged);
    CHECK(other.damage == fate.damage);
  }
  CHECK_FALSE(pace.send(Time{}, 100, {}, Time{}).damaged);
}

TEST_CASE("what real processes cannot suffer is refused with a way out") {
  const auto problems = [](const std::string& text, LaneKind lane = LaneKind::automatic) {
    std::string all;
    for (const Problem& problem : problems_on_processes(scenario_of(text), 4, lane, "f.toml")) {
      all += to_string(problem) + "\n";
    }
    return all;
  };
  CHECK(problems(fault("kind = \"kill\"\npeers = 3\n")).empty());
  for (const char* kind : {"clock_jump\"\njump_s = 1", "clock_rate\"\nfactor = 2", "disk_full\"",
                           "slow_disk\"\njump_s = 1", "revoke\"\nto = 1"}) {
    const std::string told = problems(fault("kind = \"" + std::string(kind) + "\n"));
    CHECK(told.find("scenario.fault[0]") != told.npos);
    CHECK(told.find(std::string(kind).substr(0, std::string(kind).find('"'))) != told.npos);
    CHECK(told.find("grapevine sim") != told.npos);
  }
  const std::string numbers = problems(fault("kind = \"kill\"\npeers = \"2-9\"\n") +
                                       "[[scenario.speed]]\npeers = 4\nfactor = 0.5\n");
  CHECK(numbers.find("scenario.fault[0]: there is no peer 9 among 4") != numbers.npos);
  CHECK(numbers.find("scenario.speed[0]: there is no peer 4 among 4") != numbers.npos);
  CHECK_FALSE(problems("[[scenario.speed]]\nfactor = 2\n").empty());
  const std::string cut = fault("kind = \"cut\"\npeers = 0\nto = 1\n");
  CHECK(problems(cut).empty());
  CHECK_FALSE(problems(cut, LaneKind::unix_socket).empty());
  CHECK(problems(cut, LaneKind::plain).empty());
  CHECK_FALSE(problems(fault("kind = \"corrupt\"\nprobability = 0.1\n"), LaneKind::plain).empty());
}

}  // namespace gv
