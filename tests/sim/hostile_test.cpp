// Runs in which three of sixteen peers are hostile: guards withstand every attack, but plain
// averages do not.
#include "sim/virtual/hostile.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "base/magnitude.hpp"
#include "sim/local/injector.hpp"
#include "sim/scenario_text.hpp"
#include "sim/virtual/hostile_tally.hpp"
#include "sim/virtual/simulator.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t seed = 5;
constexpr std::size_t peers = 16;

HostileRule hostile(AttackKind attack, double strength = 0) {
  return {.peers = {.ranges = {{13, 15}}}, .attack = attack, .strength = strength};
}

MixRule rule(GuardKind guard) {
  return {.topology = {.kind = TopologyKind::random_regular, .degree = 8},
          .guard = {.kind = guard}};
}

/// The end of a run of sixteen peers on quadratics, with 240 steps, usually 4 in each round.
struct Ended {
  double excess = 0;  ///< Excess loss of the honest peers' mean model.
  double worst = 0;   ///< Excess loss of the worst honest peer.
  float largest = 0;  ///< Largest parameter of any honest peer.
  std::size_t whole = 0;
  Belief of_hostile;
  Belief of_honest;
  std::uint64_t refused = 0;
  std::uint64_t hash = 0;
};

Ended run_of(const MixRule& mix, const std::vector<HostileRule>& rules, std::uint64_t period = 4) {
  Simulator::Options options = small_world(peers, seed);
  options.node.mode = ModeKind::mixing;
  options.node.course.steps = 240;
  options.node.course.wait_for_peers = peers;
  options.node.mixing.rule = mix;
  options.node.mixing.period = period;
  options.node.mixing.state_elements = options.scenario.dimension;
  options.scenario.hostile = rules;
  const QuadraticSpec spec{
      .dimension = options.scenario.dimension, .noise = 0.1, .disagreement = 0.1};
  Simulator world(options, [&](std::size_t peer) {
    auto workload = quadratic_workload(spec, peer);
    workload->mix_by(mix, options.node.course.run_seed);
    return workload;
  });
  HostileTally tally(hostile_peers(options.scenario, peers, seed));
  world.watch(tally);
  world.run(Time(5min));

  std::vector<std::size_t> honest;
  for (std::size_t peer = 0; peer < 13; ++peer) honest.push_back(peer);
  const std::vector<double> optimum = common_optimum(spec, honest);
  Ended ended{.of_hostile = tally.of_hostile(),
              .of_honest = tally.of_honest(),
              .refused = tally.refused(),
              .hash = world.trace_hash()};
  std::vector<float> mean(optimum.size());
  for (const std::size_t peer : honest) {
    const auto& work = world.peer(static_cast<PeerNumber>(peer)).work;
    REQUIRE(work);
    ended.whole += work->step() == 240;
    ended.worst = std::max(ended.worst, quadratic_excess(spec, optimum, work->parameters()));
    ended.largest = std::max(ended.largest, largest_magnitude(work->parameters()));
    CHECK(is_finite(work->parameters()));
    for (std::size_t k = 0; k < mean.size(); ++k) mean[k] += work->parameters()[k] / 13;
  }
  ended.excess = quadratic_excess(spec, optimum, mean);
  return ended;
}

/// All attacks on messages. Strengths are as published, except where that is too weak to harm even
/// a plain average.
std::vector<HostileRule> attacks() {
  return {hostile(AttackKind::bit_flip),
          hostile(AttackKind::scale),
          hostile(AttackKind::little_is_enough, 10),
          hostile(AttackKind::inner_product),
          hostile(AttackKind::dissensus),
          hostile(AttackKind::not_a_number),
          hostile(AttackKind::lying_weight)};
}

/// True if the attack does not move a plain average: NaN is refused before it is mixed, and
/// averages ignore the weight that a peer sends.
bool is_harmless(AttackKind attack) {
  return attack == AttackKind::not_a_number || attack == AttackKind::lying_weight;
}

bool mentions(const Problems& problems, const std::string& words) {
  return std::ranges::any_of(problems, [&](const Problem& problem) {
    return to_string(problem).find(words) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("with the default guard three hostile of sixteen take nobody far", "[sim][hostile]") {
  const double start = 0.5 * 16;  // About the excess loss of the first model.
  for (const HostileRule& attack : attacks()) {
    const Ended ended = run_of(rule(GuardKind::self_centred_clip), {attack});
    INFO(to_string(attack.attack));
    CHECK(ended.whole == 13);
    CHECK(ended.excess < 0.01 * start);
    CHECK(ended.worst < 0.02 * start);
  }
}

TEST_CASE("a plain average is spoilt by what the guard bears", "[sim][hostile]") {
  const Ended clean = run_of(rule(GuardKind::none), {});
  CHECK(clean.whole == 13);
  for (const HostileRule& attack : attacks()) {
    const Ended ended = run_of(rule(GuardKind::none), {attack});
    INFO(to_string(attack.attack));
    if (is_harmless(attack.attack)) {
      CHECK(ended.worst < 2 * clean.worst);
    } else {
      // Not `>=`, because the value may also be NaN.
      CHECK_FALSE(ended.worst < 20 * clean.worst);
    }
  }
  // If weights are sent, a false one does harm.
  MixRule weighs = rule(GuardKind::none);
  weighs.kind = MixKind::push_sum;
  CHECK(run_of(weighs, {}).worst < 2 * clean.worst);
  CHECK_FALSE(run_of(weighs, {hostile(AttackKind::lying_weight)}).worst < 20 * clean.worst);
}

TEST_CASE("without a guard huge values take no model beyond its bound", "[sim][hostile]") {
  for (const MixKind kind : {MixKind::average, MixKind::push_sum}) {
    MixRule mix = rule(GuardKind::none);
    mix.kind = kind;
    const Ended ended = run_of(mix, {hostile(AttackKind::scale, 1e30)});
    CHECK(ended.whole == 13);
    CHECK(ended.largest <= 1000);
    CHECK(ended.largest > 100);
  }
}

TEST_CASE("no vector that a rule keeps brings back the huge values that were held",
          "[sim][hostile]") {
  const MixRule plain = rule(GuardKind::none);
  MixRule d2 = plain;
  d2.correction = MixCorrection::d2;
  d2.topology.lazy = true;
  MixRule quasi_global = plain;
  quasi_global.correction = MixCorrection::quasi_global;
  MixRule decentlam = plain;
  decentlam.correction = MixCorrection::decentlam;
  MixRule slowmo = plain;
  slowmo.outer = MixOuter::slowmo;
  for (const MixRule& mix : {plain, d2, quasi_global, slowmo, decentlam}) {
    for (const double strength : {1e9, 1e30}) {
      INFO(to_string(mix.correction) << ", outer " << to_string(mix.outer) << ", " << strength);
      const std::uint64_t period = traits_of(mix).one_by_one ? 1 : 4;
      const Ended ended = run_of(mix, {hostile(AttackKind::scale, strength)}, period);
      CHECK(ended.whole == 13);
      CHECK(ended.largest <= 1000);
    }
  }
}

TEST_CASE("who watches learns whom the guard holds back", "[sim][hostile]") {
  const Ended flipped = run_of(rule(GuardKind::self_centred_clip), {hostile(AttackKind::bit_flip)});
  CHECK(flipped.of_hostile.heard > 1000);
  CHECK(flipped.of_hostile.held_back > 0.9 * static_cast<double>(flipped.of_hostile.heard));
  CHECK(flipped.of_honest.held_back < flipped.of_honest.heard / 2);
  CHECK(flipped.refused == 0);
  const Ended broken =
      run_of(rule(GuardKind::self_centred_clip), {hostile(AttackKind::not_a_number)});
  CHECK(broken.refused == broken.of_hostile.heard);
  const Ended plain = run_of(rule(GuardKind::none), {hostile(AttackKind::bit_flip)});
  CHECK(plain.of_hostile.held_back == 0);
}

TEST_CASE("a run with hostile peers repeats bit by bit", "[sim][hostile]") {
  const auto one = [] {
    return run_of(rule(GuardKind::self_centred_clip), {hostile(AttackKind::dissensus)});
  };
  const Ended first = one();
  const Ended again = one();
  CHECK(first.hash == again.hash);
  CHECK(first.worst == again.worst);
}

TEST_CASE("later rules about hostile peers win and drawn ones are as many as asked for") {
  Scenario scenario;
  scenario.hostile = {hostile(AttackKind::scale), {.peers = {.ranges = {{15, 15}}}}};
  const auto named = hostile_peers(scenario, peers, 1);
  REQUIRE(named.size() == 3);
  CHECK(named.at(14).attack == AttackKind::scale);
  CHECK(named.at(15).attack == AttackKind::bit_flip);
  scenario.hostile = {{.peers = {.any = 4}}};
  CHECK(hostile_peers(scenario, peers, 1).size() == 4);
  bool differs = false;
  for (std::uint64_t other = 2; other < 6; ++other) {
    const auto keys = [&](std::uint64_t drawn) {
      std::vector<std::size_t> numbers;
      for (const auto& [peer, how] : hostile_peers(scenario, peers, drawn)) numbers.push_back(peer);
      return numbers;
    };
    CHECK(keys(other) == keys(other));
    differs = differs || keys(other) != keys(1);
  }
  CHECK(differs);
}

TEST_CASE("hostile peers where they cannot be are refused with what would do") {
  Scenario scenario;
  const auto problems = [&](const MixRule& mix, ModeKind mode = ModeKind::mixing) {
    return problems_with_hostile(scenario, mode, mix, peers, "run.toml");
  };
  CHECK(problems({}, ModeKind::gossip).empty());  // Without hostile peers there is no problem.
  scenario.hostile = {hostile(AttackKind::bit_flip)};
  CHECK(problems(rule(GuardKind::self_centred_clip)).empty());
  CHECK(mentions(problems({}, ModeKind::gossip),
                 "run.toml: scenario.hostile: hostile peers are made for rounds"));
  CHECK(mentions(problems({.kind = MixKind::relay_sum}), "mixing.kind"));
  CHECK(mentions(problems({.codec = {.kind = CodecKind::fp16}}), "mixing.codec"));
  CHECK(mentions(problems({.memory = MixMemory::difference}), "mixing.codec"));
  CHECK(mentions(problems({.correction = MixCorrection::tracking}), "mixing.correction"));
  CHECK(mentions(problems({.staleness = 1}), "mixing.staleness"));
  scenario.hostile = {{.peers = {.ranges = {{14, 16}}}}};
  CHECK(mentions(problems({}), "scenario.hostile[0]: peer 16 is not one of 16"));
  scenario.hostile = {{.peers = {.any = 15}}};
  CHECK(mentions(problems({}), "fewer than two peers are honest"));
  scenario.hostile = {hostile(AttackKind::label_flip)};
  CHECK(problems({}).empty());
  scenario.faults = {{.kind = FaultKind::switch_to}};
  CHECK(mentions(problems({}), "hostile peers know one rule"));
  scenario.faults.clear();
  scenario.work = WorkKind::quadratic;
  CHECK(mentions(problems({}), "no labels to flip"));
  CHECK(mentions(problems_on_processes(scenario, peers, LaneKind::automatic, "faults.toml"),
                 "faults.toml: scenario.hostile[0]: only virtual peers can be hostile"));
}

TEST_CASE("hostile peers are read and written like other rules of a scenario") {
  const auto read = [](const std::string& text) {
    return parse_scenario_text("[scenario]\n[[scenario.hostile]]\n" + text, "s.toml", true);
  };
  const ParsedScenario sound = read("peers = \"13-15\"\nattack = \"dissensus\"\nstrength = 2\n");
  REQUIRE(sound.problems.empty());
  REQUIRE(sound.scenario.hostile.size() == 1);
  CHECK(sound.scenario.hostile[0].attack == AttackKind::dissensus);
  CHECK(sound.scenario.hostile[0].strength == 2);
  CHECK(parse_scenario_text(to_toml(sound.scenario), "s.toml", true)
            .scenario.hostile[0]
            .peers.ranges == sound.scenario.hostile[0].peers.ranges);
  CHECK(mentions(read("peers = 3\nattack = \"bitflip\"\n").problems,
                 "unknown value \"bitflip\"; the nearest is \"bit_flip\""));
  CHECK(mentions(read("peers = 3\nattack = \"honest\"\n").problems, "unknown value \"honest\""));
  CHECK(mentions(read("attack = \"scale\"\n").problems, "hostile peers without peers"));
  CHECK(mentions(read("peers = 3\n").problems, "hostile peers without attack"));
  CHECK(mentions(read("peers = 3\nattack = \"bit_flip\"\nstrength = 2\n").problems,
                 "strength: has no effect here"));
}

}  // namespace gv
