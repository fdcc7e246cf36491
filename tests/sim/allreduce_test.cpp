// The all-reduce's rows in the catalogue of faults, on virtual peers with every invariant checked.
#include "peer/modes/allreduce.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/scenario_text.hpp"
#include "sim/virtual/swarm.hpp"
#include "sim/virtual/tally.hpp"
#include "tests/lockstep_points.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// The results of an all-reduce run, as seen from outside.
class Lockstep : public Tally {
 public:
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override {
    Tally::on_effects(world, peer, effects);
    for (const Fact& fact : effects.facts) {
      const auto* resumed = std::get_if<CollectiveResumed>(&fact);
      if (resumed != nullptr) lost.push_back(resumed->seconds_lost);
    }
  }
  void after(const Simulator& world, PeerNumber peer) override {
    const auto& node = world.peer(peer).node;
    if (!node) return;
    const std::uint64_t operation = node->as<AllReduceMode>()->step();
    newest = std::max(newest, operation);
    const Generation* generation =
        node->as<AllReduceMode>()->generations()->agreement().generation();
    if (generation == nullptr || world.now() > Time(world.options().scenario.until)) return;
    smallest = std::min(smallest, generation->order.size());
    largest = std::max(largest, generation->order.size());
    if (world.now() < Time(watch_from)) return;
    if (at_watch == 0) at_watch = newest;
    if (world.now() < Time(watch_until)) during = newest - at_watch;
  }
  double worst() const { return lost.empty() ? 0 : *std::ranges::max_element(lost); }

  std::vector<double> lost;  ///< The seconds lost by each peer in each interruption.
  std::uint64_t newest = 0;  ///< Newest step that any peer has reached.
  std::size_t smallest = 1000;
  std::size_t largest = 0;
  /// The start of the period in which steps are counted.
  Duration watch_from{};
  Duration watch_until{};
  std::uint64_t during = 0;

 private:
  std::uint64_t at_watch = 0;
};

/// Watches a point of the protocol, from 6 s on. After `skip` visits by any peers, records the time
/// of the next visit and the peer that makes it.
class AtPoint : public Lockstep {
 public:
  AtPoint(std::string point, int skip) : point_(std::move(point)), left_(skip) {}

  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override {
    Lockstep::on_effects(world, peer, effects);
    const bool found = world.now() > Time(6s) && is_at(point_, *world.peer(peer).node, effects);
    if (!found || left_-- != 0) return;
    when = world.now();
    who = peer;
  }

  Time when{};
  PeerNumber who = 0;

 private:
  std::string point_;
  int left_;
};

/// An all-reduce of `peers` peers that make 20 steps a second, under the faults in `rules`.
DrawnWorld world_of(std::size_t peers, const std::string& rules, std::uint64_t seed = 1) {
  const ParsedScenario parsed = parse_scenario_text(
      "[scenario]\nwork = \"time\"\nstep_s = 0.05\ndimension = 700\nuntil_s = 20\n"
      "[[scenario.link]]\nlatency_s = 0.002\n" +
          rules,
      "ring.toml", true);
  INFO((parsed.problems.empty() ? "" : to_string(parsed.problems.front())));
  REQUIRE(parsed.problems.empty());
  DrawnWorld world{.seed = seed, .scenario = parsed.scenario};
  world.scenario.peers = peers;
  world.config.run.mode = ModeKind::allreduce;
  world.config.checkpoint.every_steps = 100;
  world.segment_elements = 256;
  return world;
}

void holds(const DrawnWorld& world, Lockstep& seen) {
  const Verdict verdict = run_world(world, &seen);
  INFO(text_of(verdict));
  CHECK_FALSE(verdict.violation);
}

std::string fault(const std::string& text) { return "[[scenario.fault]]\n" + text; }

}  // namespace

TEST_CASE("F1 a death at any moment of an operation leaves all others with one result", "[sim]") {
  // Deaths every 6 ms over half a second hit gradients, every hop of a ring and of a tree, and the
  // agreement.
  for (int moment = 0; moment < 80; ++moment) {
    const std::string at = std::to_string(6 + 0.006 * moment);
    DrawnWorld world = world_of(4,
                                fault("kind = \"kill\"\npeers = \"" + std::to_string(moment % 4) +
                                      "\"\nat_s = " + at + "\n"),
                                static_cast<std::uint64_t>(moment));
    world.scenario.until = 12s;
    // Each of the four peers dies in each of the algorithms.
    world.config.allreduce.algorithm =
        reduce_algorithms()[static_cast<std::size_t>(moment) / 4 % reduce_algorithms().size()];
    Lockstep seen;
    INFO("killed at " << at << " s");
    holds(world, seen);
    CHECK(seen.worst() < 3);
  }
}

TEST_CASE("F1 a death at each named point leaves all others with one result", "[sim]") {
  for (const std::string& point : lockstep_points) {
    for (const std::size_t peers : {3, 5}) {
      // The first run finds the victim and the time. Then the same world runs again with the fault.
      const std::string before =
          is_of_agreement(point) ? fault("kind = \"restart\"\npeers = \"1\"\nat_s = 6\n") : "";
      AtPoint search(point, is_of_agreement(point) ? 0 : 5);
      const auto world = [&](const std::string& rules) {
        DrawnWorld made = world_of(peers, before + rules);
        made.scenario.until = 12s;
        made.config.allreduce.algorithm = ReduceAlgorithm::ring;
        return made;
      };
      holds(world(""), search);
      INFO(point << " at peer " << search.who << " of " << peers);
      REQUIRE(search.when != Time());
      // The peer dies just before or just after it carries out its effects.
      for (const Duration after : {-1ns, 1000ns}) {
        Lockstep seen;
        std::string at = std::to_string((search.when.time_since_epoch() + after).count());
        at.insert(at.size() - 9, ".");
        holds(world(fault("kind = \"kill\"\npeers = \"" + std::to_string(search.who) +
                          "\"\nat_s = " + at + "\n")),
              seen);
        CHECK(seen.smallest < peers);
        CHECK(seen.worst() < 3);
        CHECK(seen.newest > 150);
      }
    }
  }
}

TEST_CASE("F1 a death during the agreement on another changes nothing but its members", "[sim]") {
  for (int moment = 0; moment < 40; ++moment) {
    const std::string second = std::to_string(8 + 0.01 * moment);
    Lockstep seen;
    INFO("the second at " << second << " s");
    holds(world_of(5,
                   fault("kind = \"kill\"\npeers = \"0\"\nat_s = 8\n") +
                       fault("kind = \"kill\"\npeers = \"1\"\nat_s = " + second + "\n"),
                   static_cast<std::uint64_t>(moment)),
          seen);
    CHECK(seen.smallest == 3);
  }
}

TEST_CASE("F1 the death of a peer that sends a state or takes it harms no other", "[sim]") {
  for (int moment = 0; moment < 30; ++moment) {
    const std::string at = std::to_string(5 + 0.03 * moment);
    Lockstep seen;
    DrawnWorld world = world_of(3,
                                "[[scenario.link]]\nlatency_s = 0.01\nbandwidth_mbit = 20\n" +
                                    fault("kind = \"join\"\npeers = \"2\"\nat_s = 5\n") +
                                    fault("kind = \"kill\"\npeers = \"" +
                                          std::to_string(moment % 3) + "\"\nat_s = " + at + "\n"),
                                static_cast<std::uint64_t>(moment));
    world.scenario.dimension = 70000;
    world.segment_elements = 8192;
    INFO("killed at " << at << " s");
    holds(world, seen);
  }
}

TEST_CASE("a generation that ends for a better one costs nobody the newest sum", "[sim]") {
  // Over links of 1 Mbit/s, a sum of 2.8 kB reaches some peers well before others.
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    DrawnWorld world = world_of(6, "[[scenario.link]]\nbandwidth_mbit = 1\n", seed);
    world.config.run.wait_for_peers = 6;
    int adopted = 0;
    std::set<std::uint64_t> generations;
    FactWatch watch([&](const Simulator& running, PeerNumber peer, const Fact& fact) {
      if (running.now() > Time(world.scenario.until)) return;
      adopted += std::holds_alternative<StateAdopted>(fact);
      const Generation* generation =
          running.peer(peer).node->as<AllReduceMode>()->generations()->agreement().generation();
      if (std::holds_alternative<GenerationBegan>(fact) && generation != nullptr)
        generations.insert(generation->key());
    });
    const Verdict verdict = run_world(world, &watch);
    INFO("seed " << seed);
    CHECK_FALSE(verdict.violation);
    CHECK(generations.size() > 2);
    CHECK(adopted == 0);
  }
}

TEST_CASE("F2 one in lockstep that is killed and started again is sent the state", "[sim]") {
  Lockstep seen;
  holds(world_of(4, fault("kind = \"restart\"\npeers = \"any\"\nat_s = 5\nevery_s = 3\n")), seen);
  CHECK(seen.count<StateAdopted>() >= 3);
  CHECK(seen.newest > 3000);
}

TEST_CASE("F3 F4 a peer that stands still is waited for or left out and comes back", "[sim]") {
  for (const char* length : {"2", "60"}) {
    Lockstep seen;
    seen.watch_from = 15s;
    seen.watch_until = 60s;
    DrawnWorld world = world_of(
        4,
        fault("kind = \"stop\"\npeers = \"1\"\nat_s = 8\nfor_s = " + std::string(length) + "\n"));
    world.scenario.until = 90s;
    holds(world, seen);
    CHECK(seen.during > 600);
    CHECK(seen.largest == 4);
  }
}

TEST_CASE("F5 a peer that leaves lockstep costs the others no more than an agreement", "[sim]") {
  Lockstep seen;
  holds(world_of(4, fault("kind = \"leave\"\npeers = \"1\"\nat_s = 8\n")), seen);
  CHECK(seen.count<MemberDead>() == 0);
  CHECK(seen.smallest == 3);
  CHECK(seen.worst() < 2);
}

TEST_CASE("F6 F7 the last one goes on alone and when all die they go on from what is saved",
          "[sim]") {
  Lockstep alone;
  alone.watch_from = 12s;
  alone.watch_until = 19s;
  holds(world_of(5, fault("kind = \"kill\"\npeers = \"0-3\"\nat_s = 8\n")), alone);
  CHECK(alone.smallest == 1);
  CHECK(alone.during > 100);
  Lockstep all;
  holds(world_of(5, fault("kind = \"kill\"\npeers = \"all\"\nat_s = 12\nfor_s = 1\n")), all);
  CHECK(all.newest > 3000);
}

TEST_CASE("F8 F9 first contacts die and twenty join at once", "[sim]") {
  Lockstep seen;
  holds(world_of(4, fault("kind = \"kill\"\npeers = \"0\"\nat_s = 5\n") +
                        fault("kind = \"restart\"\npeers = \"1-3\"\nat_s = 10\n")),
        seen);
  Lockstep many;
  DrawnWorld world = world_of(24, fault("kind = \"join\"\npeers = \"4-23\"\nat_s = 5\n"));
  world.scenario.step = 1s;
  holds(world, many);
  CHECK(many.largest == 24);
}

TEST_CASE("F10 under churn operations go on", "[sim]") {
  Lockstep seen;
  DrawnWorld world =
      world_of(6, fault("kind = \"kill\"\npeers = \"any\"\nat_s = 5\nfor_s = 3\nevery_s = 2\n"));
  world.scenario.until = 120s;
  seen.watch_from = 5s;
  seen.watch_until = 120s;
  holds(world, seen);
  CHECK(seen.injected().at("kill") > 30);
  CHECK(seen.during > 500);
}

TEST_CASE("F11 F12 F14 both sides of a partition go on and are one in lockstep after it", "[sim]") {
  for (const char* side : {"0-1", "3", "0"}) {
    Lockstep seen;
    DrawnWorld world = world_of(5, fault("kind = \"partition\"\npeers = \"" + std::string(side) +
                                         "\"\nat_s = 7.013\nfor_s = 30\n"));
    world.scenario.until = 60s;
    seen.watch_from = 15s;
    seen.watch_until = 35s;
    holds(world, seen);
    CHECK(seen.during > 200);
    CHECK(seen.largest == 5);
  }
}

TEST_CASE("F13 F15 a cut one way and links clogged in turn stop lockstep for a while at most",
          "[sim]") {
  Lockstep cut;
  holds(world_of(4, fault("kind = \"cut\"\npeers = \"0\"\nto = \"1\"\nat_s = 5\nfor_s = 10\n")),
        cut);
  std::string rules;
  for (int i = 0; i < 4; ++i) {
    rules += fault("kind = \"clog\"\npeers = \"" + std::to_string(i) + "\"\nat_s = " +
                   std::to_string(5 + i) + "\nfor_s = " + std::to_string(5 - i) + "\n");
  }
  Lockstep clog;
  holds(world_of(4, rules), clog);
  CHECK(clog.count<MemberDead>() == 0);
}

TEST_CASE("F16 F17 F18 loss and repeats and delays change no sum", "[sim]") {
  Lockstep seen;
  holds(world_of(4,
                 "[[scenario.link]]\nlatency_s = 0.01\nloss = 0.05\nduplicate = 0.5\n"
                 "reorder = 0.5\n"),
        seen);
  CHECK(seen.newest > 100);
}

TEST_CASE("F21 one with a tenth of the pace is waited for and never left out", "[sim]") {
  Lockstep seen;
  DrawnWorld world = world_of(4, "[[scenario.speed]]\npeers = \"2\"\nfactor = 0.1\n");
  world.scenario.until = 60s;
  holds(world, seen);
  CHECK(seen.smallest == 4);
  CHECK(seen.count<GenerationEnded>() == 0);
  Lockstep suddenly;
  world = world_of(4, fault("kind = \"slow_cpu\"\npeers = \"2\"\nat_s = 5\nfactor = 0.02\n"));
  holds(world, suddenly);
  CHECK(suddenly.count<GenerationEnded>() == 0);
}

}  // namespace gv
