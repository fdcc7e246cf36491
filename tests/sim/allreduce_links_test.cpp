// All-reduce over unequal links: peers measure the links with a few blocks, and the ring avoids
// slow ones.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <set>
#include <vector>

#include "peer/modes/allreduce.hpp"
#include "sim/virtual/allreduce_invariants.hpp"
#include "sim/virtual/simulator.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t elements = 20000;
constexpr double fast_mbit = 100;

// The two peers of the slow link. Their ids are neighbours.
constexpr std::size_t a = 1;
constexpr std::size_t b = 2;

LinkRule link_rule(std::size_t from, std::size_t to, double mbit) {
  LinkRule rule;
  rule.from = just(from);
  rule.to = just(to);
  rule.quality = {.latency = 500us, .bandwidth = mbit};
  return rule;
}

/// All-reduce peers that compute for 5 ms and sum 80 kB over 100 Mbit/s.
Simulator::Options world_of(std::size_t peers, std::uint64_t seed = 3) {
  Simulator::Options options = small_world(peers, seed, elements);
  options.scenario.step = 5ms;
  options.scenario.step_jitter = 0;
  options.scenario.links = {every_link({.latency = 500us, .bandwidth = fast_mbit})};
  options.node.mode = ModeKind::allreduce;
  AllReduceOptions& allreduce = options.node.allreduce;
  allreduce.state_elements = elements;
  allreduce.batch = 16;
  allreduce.algorithm = ReduceAlgorithm::ring;
  allreduce.segment_elements = 1000;
  return options;
}

/// Runs a world with its invariants. Records the orders and the step times of its first peer.
class Lockstep : public Watcher {
 public:
  explicit Lockstep(const Simulator::Options& options)
      : world(options, [&options](std::size_t peer) {
          return idle_workload(elements, options.seed, peer, true);
        }) {
    world.watch(invariants);
    world.watch(*this);
  }

  void after(const Simulator& at, PeerNumber peer) override {
    const auto& node = at.peer(peer).node;
    if (peer != 0 || !node) return;
    const Generation* generation =
        node->as<AllReduceMode>()->generations()->agreement().generation();
    if (generation == nullptr) return;
    if (orders.empty() || orders.back() != generation->order) orders.push_back(generation->order);
    const std::uint64_t operation = node->as<AllReduceMode>()->step();
    if (finished.empty()) finished.push_back(at.now());
    while (finished.size() <= operation) finished.push_back(at.now());
  }

  void run(Time end) {
    world.run(end);
    INFO((invariants.violation() ? invariants.violation()->what : ""));
    REQUIRE_FALSE(invariants.violation());
  }

  std::uint64_t operations() const { return finished.size() - 1; }
  double seconds_of(std::uint64_t first, std::uint64_t last) const {
    return seconds(finished.at(last) - finished.at(first)) / static_cast<double>(last - first);
  }
  const Generation& generation() const {
    return *world.peer(0).node->as<AllReduceMode>()->generations()->agreement().generation();
  }

  Simulator world;
  AllReduceInvariants invariants;
  std::vector<std::vector<PeerId>> orders;
  std::vector<Time> finished;  ///< The start, followed by the end of each step.
};

bool neighbours(const std::vector<PeerId>& allreduce, std::size_t a, std::size_t b) {
  for (std::size_t i = 0; i < allreduce.size(); ++i) {
    const std::set<PeerId> pair{allreduce[i], allreduce[(i + 1) % allreduce.size()]};
    if (pair == std::set<PeerId>{id_of(a), id_of(b)}) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a ring goes round a slow pair within twenty operations and is as fast as predicted",
          "[sim][allreduce]") {
  Simulator::Options options = world_of(5);
  options.scenario.links.push_back(link_rule(a, b, fast_mbit / 10));
  Lockstep lockstep(options);
  lockstep.run(Time(20s));
  REQUIRE(lockstep.operations() > 200);
  REQUIRE(lockstep.orders.size() == 2);
  CHECK(neighbours(lockstep.orders.front(), a, b));
  CHECK_FALSE(neighbours(lockstep.orders.back(), a, b));
  // The invariants check that all peers have the same generation. The following checks are about
  // its contents.
  CHECK(lockstep.generation().slowest.bytes_per_second ==
        Approx(fast_mbit * 1e6 / 8).epsilon(0.05));
  CHECK(lockstep.generation().slowest.latency_s == Approx(500e-6).epsilon(0.05));

  // A step consists of a gradient and 8 rounds. Each round sends 16 kB and adds half a millisecond
  // of latency. One slow link makes a ring as slow as if all its links were slow.
  const auto predicted = [](double mbit) { return 0.005 + 8 * (0.0005 + 16e3 * 8 / (mbit * 1e6)); };
  const auto all_at = [](double mbit) {
    Simulator::Options alike = world_of(5);
    alike.scenario.links = {every_link({.latency = 500us, .bandwidth = mbit})};
    Lockstep other(alike);
    other.run(Time(60s));
    return other.seconds_of(160, 260);
  };
  const double before = all_at(fast_mbit / 10);
  const double after = lockstep.seconds_of(160, 260);
  INFO(before << " s before and " << after << " s after");
  CHECK(before / after >= predicted(fast_mbit / 10) / predicted(fast_mbit));
  CHECK(after < 1.02 * all_at(fast_mbit));
  // The generation with the new order measures all links once more, including the slow ones.
  CHECK(lockstep.seconds_of(18, 36) < before);
  CHECK(lockstep.seconds_of(40, 60) < 1.02 * after);
}

TEST_CASE("where links are alike no order ever changes", "[sim][allreduce]") {
  const std::size_t peers = GENERATE(2, 3, 4, 5, 8);
  for (const double bandwidth : {0.0, fast_mbit}) {
    Simulator::Options options = world_of(peers);
    options.scenario.links = {
        every_link({.latency = 500us, .jitter = 100us, .bandwidth = bandwidth})};
    options.scenario.step_jitter = 0.2;
    options.node.allreduce.algorithm.reset();
    Lockstep lockstep(options);
    lockstep.run(Time(30s));
    CHECK(lockstep.operations() > 400);
    CHECK(lockstep.orders.size() == 1);
    // A ballot comes after 16 to 30 steps, the next one after four times as many, and so on. The
    // probes of links cause no ballots.
    CHECK(lockstep.invariants.generations() <= 6);
  }
}

TEST_CASE("a link that becomes slow later is gone round too", "[sim][allreduce]") {
  Simulator::Options options = world_of(5);
  FaultRule slow = fault(FaultKind::slow_link, 10s, just(a));
  slow.to = just(b);
  slow.quality.bandwidth = fast_mbit / 10;
  options.scenario.faults = {slow};
  Lockstep lockstep(options);
  lockstep.run(Time(10s));
  CHECK(lockstep.orders.size() == 1);
  const std::uint64_t before = lockstep.operations();
  lockstep.run(Time(30s));
  REQUIRE(lockstep.orders.size() == 2);
  CHECK_FALSE(neighbours(lockstep.orders.back(), a, b));
  // The link counts as slow after 16 slow collectives. Then links are measured twice, for 17
  // collectives each time. The rest of the 80 steps is a margin.
  const double slow_one = lockstep.seconds_of(before, before + 16);
  const double after = lockstep.seconds_of(before + 80, before + 100);
  INFO(lockstep.seconds_of(before - 50, before) << " s, then " << slow_one << ", then " << after);
  CHECK(after < slow_one / 4);
}

TEST_CASE("peers whose speed varies all the time do not use up their ballots", "[sim][allreduce]") {
  Simulator::Options options = world_of(2);
  options.scenario.step = 1ms;
  options.scenario.links = {every_link({.latency = 20us, .bandwidth = 10000})};
  for (Duration at = 2s; at < 20s; at += 400ms) {
    FaultRule slow = fault(FaultKind::slow_cpu, at, just(0), 200ms);
    slow.factor = 0.25;
    options.scenario.faults.push_back(slow);
  }
  Lockstep lockstep(options);
  lockstep.run(Time(20s));
  Duration longest{};
  for (std::size_t i = 1; i < lockstep.finished.size(); ++i) {
    longest = std::max(longest, lockstep.finished[i] - lockstep.finished[i - 1]);
  }
  INFO(seconds(longest) << " s, " << lockstep.invariants.generations() << " generations");
  // A peer waits 0.6 s for others that do not answer, so the bound shows that all answered.
  CHECK(longest < 100ms);
  CHECK(lockstep.invariants.generations() <= 14);
}

TEST_CASE("the order that links ask for is kept when one of them dies", "[sim][allreduce]") {
  Simulator::Options options = world_of(6);
  options.scenario.links.push_back(link_rule(a, b, fast_mbit / 10));
  options.scenario.faults = {fault(FaultKind::kill, 10s, just(4))};
  Lockstep lockstep(options);
  lockstep.run(Time(10s));
  REQUIRE(lockstep.orders.size() == 2);
  lockstep.run(Time(20s));
  REQUIRE(lockstep.generation().order.size() == 5);
  for (std::size_t i = 1; i < lockstep.orders.size(); ++i) {
    CHECK_FALSE(neighbours(lockstep.orders[i], a, b));
  }
}

}  // namespace gv
