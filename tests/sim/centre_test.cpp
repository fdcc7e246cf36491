// Peers around a centre, and peers on hosts, train at their own pace, even when a centre dies.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <vector>

#include "sim/virtual/simulator.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t seed = 5;
constexpr std::uint64_t budget = 300;  // 6 s at full pace.

QuadraticSpec quadratic(std::size_t dimension) {
  return {.dimension = dimension, .noise = 0.01, .disagreement = 0.1, .seed = seed};
}

/// Asynchronous EASGD by `peers` peers, the last of which has a quarter of the pace.
Simulator::Options elastic_world(std::size_t peers) {
  Simulator::Options options = small_world(peers, seed);
  options.node.course.steps = budget;
  options.node.course.wait_for_peers = peers;
  GossipOptions& gossip = options.node.gossip;
  gossip.topology.kind = TopologyKind::star;
  gossip.pairing = PairingKind::uniform;
  gossip.centre_rests = true;
  gossip.alpha = 0.2;
  options.scenario.speeds = {{.peers = just(peers - 1), .factor = 0.25}};
  return options;
}

Simulator::Options mixing_world(std::size_t peers, const MixRule& rule) {
  Simulator::Options options = small_world(peers, seed);
  options.node.mode = ModeKind::mixing;
  options.node.course.steps = budget;
  options.node.course.wait_for_peers = peers;
  options.node.mixing.rule = rule;
  options.node.mixing.state_elements = options.scenario.dimension;
  return options;
}

MakeWorkload workloads(const Simulator::Options& options, bool mixes) {
  return [spec = quadratic(options.scenario.dimension), rule = options.node.mixing.rule,
          mixes](std::size_t peer) {
    auto workload = quadratic_workload(spec, peer);
    if (mixes) workload->mix_by(rule, seed);
    return workload;
  };
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  for (std::size_t k = 0; k < a.size(); ++k) squares += std::pow(a[k] - b[k], 2);
  return std::sqrt(squares);
}

std::vector<std::uint64_t> steps_of(const Simulator& world) {
  std::vector<std::uint64_t> steps;
  for (PeerNumber number = 0; number < world.size(); ++number) {
    steps.push_back(world.peer(number).work ? world.peer(number).work->step() : 0);
  }
  return steps;
}

MixRule downpour(TopologyKind kind) {
  return {.topology = {.kind = kind},
          .kind = MixKind::downpour,
          .staleness = unbounded_staleness,
          .centre_rests = true};
}

}  // namespace

TEST_CASE("the centre of asynchronous EASGD answers and does not train", "[sim]") {
  const Simulator::Options options = elastic_world(5);
  Simulator world(options, workloads(options, false));
  world.run(Time(20s));
  // The centre needs only a little time, to copy models.
  CHECK(world.peer(0).spent.training < 0.02 * world.peer(1).spent.training);
  const std::vector<std::uint64_t> steps = steps_of(world);
  for (PeerNumber worker = 1; worker < 4; ++worker) CHECK(steps[worker] == budget);
  CHECK(steps[4] < budget);
  CHECK(steps[0] <= steps[4]);
  // The centre takes part in every exchange.
  const std::vector<std::uint64_t> exchanges = committed(world);
  CHECK(exchanges[0] == std::accumulate(exchanges.begin() + 1, exchanges.end(), std::uint64_t{0}));
  CHECK(exchanges[0] > 3 * budget / 10 * 3 / 4);

  world.run(Time(2min));
  CHECK(steps_of(world) == std::vector<std::uint64_t>(5, budget));
  const std::vector<double> optimum = common_optimum(quadratic(16), 5);
  for (const std::vector<float>& model : models(world)) {
    CHECK(distance(model, {optimum.begin(), optimum.end()}) < 0.5);
  }
}

TEST_CASE("a centre that dies is followed by the next peer with the model that it has", "[sim]") {
  Simulator::Options options = elastic_world(5);
  options.scenario.faults = {fault(FaultKind::kill, 2s, just(0))};
  Simulator world(options, workloads(options, false));
  world.run(Time(2min));
  // Peer 1 trains until the others know of the death, and then becomes the centre.
  CHECK(world.peer(1).spent.training < seconds(6s));
  CHECK(world.peer(2).spent.training > seconds(5s));
  CHECK(steps_of(world) == std::vector<std::uint64_t>{0, budget, budget, budget, budget});
}

TEST_CASE("no worker of asynchronous DOWNPOUR waits for a slow one", "[sim][mixing]") {
  for (const TopologyKind kind : {TopologyKind::star, TopologyKind::tree}) {
    Simulator::Options options = mixing_world(5, downpour(kind));
    options.scenario.speeds = {{.peers = just(4), .factor = 0.25}};
    Simulator world(options, workloads(options, true));
    world.run(Time(12s));
    const std::vector<std::uint64_t> steps = steps_of(world);
    for (PeerNumber worker = 1; worker < 4; ++worker) CHECK(steps[worker] == budget);
    CHECK(steps[4] < budget);
    // The centre needs only a little time, to copy models.
    CHECK(world.peer(0).spent.training < 0.02 * world.peer(1).spent.training);
    world.run(Time(2min));
    CHECK(steps_of(world) == std::vector<std::uint64_t>(5, budget));
    const std::vector<double> optimum = common_optimum(quadratic(16), 5);
    CHECK(distance(models(world)[0], {optimum.begin(), optimum.end()}) < 0.5);
  }
}

TEST_CASE("peers of a host have one model and hosts have their own", "[sim][mixing]") {
  const MixRule rule{.topology = {.kind = TopologyKind::hosts, .hosts_every = 4}};
  Simulator::Options options = mixing_world(5, rule);
  options.scenario.hosts = 2;
  Simulator world(options, workloads(options, true));
  world.run(Time(1min));
  CHECK(steps_of(world) == std::vector<std::uint64_t>(5, budget));
  const auto all = models(world);
  // The last round, number 299, mixes within hosts, and the round before it mixed between hosts. So
  // models of one host differ only by the rounding of sums of floats of size 1.
  CHECK(distance(all[0], all[2]) < 1e-5);
  CHECK(distance(all[0], all[4]) < 1e-5);
  CHECK(distance(all[1], all[3]) < 1e-5);
  CHECK(distance(all[0], all[1]) > 1e-4);
}

}  // namespace gv
