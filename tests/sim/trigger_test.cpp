// Exchanges with triggers other than a number of steps.
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/virtual/simulator.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t peers = 6;

struct Outcome {
  double exchanges = 0;  ///< Committed exchanges per peer and 1,000 of its steps.
  double distance = 0;   ///< RMS distance between models that met in the second half of the run.
};

/// Runs peers with noisy gradients for 3,000 steps of 20 ms.
Outcome run_of(TriggerKind trigger, double target = 0, Duration latency = 1ms) {
  Simulator::Options options = small_world(peers, 9, 32);
  options.node.course.steps = 3000;
  options.scenario.links = {every_link({.latency = latency})};
  GossipOptions& gossip = options.node.gossip;
  gossip.pairing = PairingKind::uniform;
  gossip.period_steps = 20;
  gossip.trigger = trigger;
  gossip.target_spread = target;
  const QuadraticSpec spec{.dimension = 32, .learning_rate = 0.02, .noise = 1, .disagreement = 0};
  Simulator world(options, [&](std::size_t peer) { return quadratic_workload(spec, peer); });
  double squares = 0;
  std::size_t measured = 0;
  std::size_t committed = 0;
  FactWatch watch([&](const Simulator&, PeerNumber, const Fact& fact) {
    const auto* exchange = std::get_if<ExchangeCommitted>(&fact);
    if (exchange == nullptr) return;
    ++committed;
    if (world.now() < Time(30s)) return;
    squares += exchange->distance * exchange->distance;
    ++measured;
  });
  world.watch(watch);
  world.run(Time(70s));
  for (PeerNumber number = 0; number < world.size(); ++number) {
    REQUIRE(world.peer(number).work);
    CHECK(world.peer(number).work->step() >= 3000);
  }
  return {.exchanges = static_cast<double>(committed) / peers / 3,
          .distance = std::sqrt(squares / static_cast<double>(measured))};
}

}  // namespace

TEST_CASE("a Poisson trigger makes as many exchanges as one by steps", "[sim][trigger]") {
  const double counted = run_of(TriggerKind::steps).exchanges;
  const double drawn = run_of(TriggerKind::poisson).exchanges;
  CHECK(counted > 60);
  // There are about 450 exchanges with each trigger. With random triggers, this number has a
  // standard deviation of 5 %.
  CHECK(drawn == Approx(counted).epsilon(0.2));
}

TEST_CASE("an idle trigger exchanges as often as links let it", "[sim][trigger]") {
  const double counted = run_of(TriggerKind::steps).exchanges;
  const double near = run_of(TriggerKind::idle).exchanges;
  const double far = run_of(TriggerKind::idle, 0, 100ms).exchanges;
  CHECK(near > 1.5 * counted);
  CHECK(far < 0.8 * near);
}

TEST_CASE("a trigger by spread keeps models as far apart as it is told", "[sim][trigger]") {
  const Outcome narrow = run_of(TriggerKind::spread, 0.5);
  const Outcome wide = run_of(TriggerKind::spread, 0.8);
  CHECK(narrow.distance == Approx(0.5).epsilon(0.2));
  CHECK(wide.distance == Approx(0.8).epsilon(0.2));
  CHECK(narrow.exchanges > 1.5 * wide.exchanges);
}

}  // namespace gv
