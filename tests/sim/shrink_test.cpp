// Shrinking failing worlds: every smaller world on the way can be read again.
#include <catch2/catch.hpp>
#include <cstdint>

#include "cli/simulate.hpp"
#include "sim/virtual/swarm.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

bool always(const DrawnWorld&) { return true; }

}  // namespace

TEST_CASE("drawn worlds are shrunk to smaller ones that are legal", "[sim]") {
  int legal = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const DrawnWorld world = draw_world(seed);
    if (!is_legal(world)) continue;
    const DrawnWorld small = shrink(world, is_legal, always);
    INFO("seed " << seed << "\n" << to_toml(small));
    CHECK(is_legal(small));
    CHECK(small.scenario.faults.empty());
    CHECK(small.scenario.peers <= world.scenario.peers);
    ++legal;
  }
  CHECK(legal > 20);
}

TEST_CASE("no illegal world is tried when one is shrunk", "[sim]") {
  DrawnWorld world = draw_world(1);
  world.config = settings_of_worlds();
  world.scenario = {.peers = 16, .work = WorkKind::time};
  world.config.gossip.topology.kind = TopologyKind::hypercube;
  world.scenario.saboteurs = just(1);
  REQUIRE(is_legal(world));
  int tried = 0;
  const DrawnWorld small = shrink(world, is_legal, [&tried](const DrawnWorld& candidate) {
    INFO(to_toml(candidate));
    CHECK(is_legal(candidate));
    ++tried;
    return true;
  });
  CHECK(tried > 2);
  // A hypercube cannot have seven peers, and of two peers one saboteur would be half.
  CHECK(small.scenario.peers == 4);
}

TEST_CASE("rules go on naming peers that exist when a world gets smaller", "[sim]") {
  DrawnWorld world = draw_world(1);
  world.config = settings_of_worlds();
  world.scenario = {.peers = 12, .work = WorkKind::time};
  world.scenario.faults = {fault(FaultKind::kill, Duration{}, {.ranges = {{1, 9}}})};
  world.scenario.speeds = {{.peers = {.ranges = {{0, 8}}}, .factor = 0.5}};
  world.scenario.links = {{.from = {.ranges = {{9, 9}}}}};
  REQUIRE(is_legal(world));
  const DrawnWorld small = shrink(world, is_legal, [](const DrawnWorld& candidate) {
    return !candidate.scenario.faults.empty() && !candidate.scenario.speeds.empty();
  });
  CHECK(small.scenario.peers == 2);
  CHECK(to_string(small.scenario.faults.at(0).peers) == "1");
  CHECK(to_string(small.scenario.speeds.at(0).peers) == "0-1");
  CHECK(small.scenario.links.empty());
}

TEST_CASE("no rule of a drawn pipeline names a peer that does not exist", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const DrawnWorld world = as_pipeline(draw_world(seed));
    const Scenario& scenario = world.scenario;
    INFO("seed " << seed << "\n" << to_toml(world));
    CHECK(problems_with_rules(scenario, scenario.peers, scenario.until, "").empty());
  }
}

}  // namespace gv
