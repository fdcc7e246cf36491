// The checkers of a virtual world, tested on peers that are misled from outside.
#include "sim/virtual/invariants.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "consensus/membership/statement.hpp"
#include "sim/virtual/allreduce_invariants.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

std::string broken(const Invariants& invariants) {
  return invariants.violation() ? invariants.violation()->invariant : "nothing";
}

/// A peer's message about itself.
Message alive(const Simulator& world, PeerId id, std::uint64_t incarnation) {
  Member self{.id = id, .name = "ghost", .incarnation = incarnation};
  restate(self, world.signer(id));
  return PushPull{false, {self}};
}

}  // namespace

TEST_CASE("a lost stage excuses peers that wait, and nothing that no stage decides", "[unit]") {
  const auto lacks = [](const char* invariant) {
    return may_wait_for_stage({invariant, "peer-1", Time{}, true});
  };
  CHECK(lacks("joins"));
  CHECK(lacks("operations go on"));
  CHECK(lacks("one generation"));
  CHECK_FALSE(lacks("views agree"));
  CHECK_FALSE(lacks("one mode"));
}

TEST_CASE("a member that is not on its observer's list is found out", "[sim]") {
  constexpr PeerId stranger{4711};
  for (const bool let_in : {false, true}) {
    Simulator::Options options = small_world(3, 1);
    Simulator world(options, idle_peers(options));
    Invariants invariants;
    world.watch(invariants);
    world.run(Time(2s));
    if (let_in) {
      // Only this peer's node learns of the stranger. The world's own lists do not contain the
      // stranger.
      NodeEffects effects;
      world.peer(0).node->authorize(Time(2s), {id_of(1), stranger}, effects);
    }
    world.send_from_outside(stranger, 0, alive(world, stranger, 1));
    CHECK(broken(invariants) == (let_in ? "no ghost" : "nothing"));
  }
}

TEST_CASE("a peer that left and is still counted in minutes later is found out", "[sim]") {
  for (const bool haunted : {false, true}) {
    Simulator::Options options = small_world(4, 2);
    options.scenario.links = {every_link({.latency = 2ms})};
    options.scenario.faults = {fault(FaultKind::leave, 5s, just(3))};
    Simulator world(options, idle_peers(options));
    Invariants invariants;
    world.watch(invariants);
    std::uint64_t incarnation = 100;
    for (Time at(10s); at < Time(110s); at += 1s) {
      world.run(at);
      if (haunted) world.send_from_outside(id_of(3), 0, alive(world, id_of(3), ++incarnation));
    }
    INFO((invariants.violation() ? invariants.violation()->what : ""));
    CHECK(broken(invariants) == (haunted ? "no ghost" : "nothing"));
  }
}

TEST_CASE("half an exchange is excused by what befell the other side since it was decided",
          "[sim]") {
  // Peer 1 replaces its model by a downloaded one just before or just after the decision. Peer 0
  // adds its force soon, or later if its disk is slow.
  for (const bool before : {false, true}) {
    for (const Time applied : {Time(102s), Time(190s)}) {
      Simulator::Options options = small_world(2, 4);
      options.node.gossip.alpha = 0;  // No exchange happens except the one below.
      Simulator world(options, idle_peers(options));
      Invariants invariants;
      const auto does = [&](PeerNumber peer, const Job& job) {
        invariants.on_job(world, peer, job);
        invariants.on_job_done(world, peer, {.step = world.peer(peer).work->step()});
      };
      const auto adopts = [&] {
        const DownloadedModel model{.source = id_of(0), .step = world.peer(1).work->step()};
        does(1, {.tasks = {task::AdoptModel{model}}});
      };
      const TransferId exchange{id_of(0), 1, 1};
      world.run(Time(99s));
      if (before) adopts();
      world.run(Time(100s));
      NodeEffects decision;
      decision.send(id_of(1), Commit{exchange});
      invariants.on_effects(world, 0, decision);
      world.run(Time(101s));
      if (!before) adopts();
      world.run(applied);
      const Force force{.values = std::make_shared<const std::vector<float>>(16, 1.0F),
                        .exchange = exchange,
                        .partner = id_of(1)};
      does(0, {.tasks = {task::AddForces{{force}}}});
      world.run(Time(260s));
      does(1, {});
      invariants.check_settled(world);
      INFO((invariants.violation() ? invariants.violation()->what : ""));
      CHECK(broken(invariants) == (before ? "half exchanges known" : "nothing"));
      CHECK(invariants.halves() == (before ? 0 : 1));
    }
  }
}

TEST_CASE("sums of lossy codecs are not compared with the exact mean", "[sim]") {
  for (const Codec codec : {Codec::identity, Codec::fp16, Codec::qsgd4}) {
    Simulator::Options options = small_world(3, 1);
    options.node.mode = ModeKind::allreduce;
    options.node.course.wait_for_peers = 3;
    options.node.course.steps = 20;
    options.node.allreduce.state_elements = options.node.course.elements;
    options.node.allreduce.compression.codec = codec;
    const QuadraticSpec spec{.dimension = options.scenario.dimension};
    Simulator world(options, [&](std::size_t peer) { return quadratic_workload(spec, peer); });
    AllReduceInvariants invariants;
    world.watch(invariants);
    world.run(Time(10s));
    INFO((invariants.violation() ? invariants.violation()->what : ""));
    CHECK_FALSE(invariants.violation());
    CHECK((invariants.sums() > 0) == (codec == Codec::identity));
    CHECK(invariants.operations() > 0);
  }
}

TEST_CASE("the last survivor keeps only the numbers of the last statements of forgotten peers",
          "[sim]") {
  Simulator::Options options = small_world(5, 3);
  options.scenario.links = {every_link({.latency = 2ms})};
  options.scenario.faults = {fault(FaultKind::kill, 10s, PeerSet{.ranges = {{0, 3}}})};
  Simulator world(options, idle_peers(options));
  Invariants invariants;
  world.watch(invariants);
  const auto survivor = [&]() -> const Membership& { return world.peer(4).node->membership(); };
  world.run(Time(60s));
  CHECK(survivor().view().size() == 1);
  CHECK(survivor().members().size() == 5);
  world.run(Time(60s + options.node.membership.forget_dead_after));
  CHECK(survivor().members().size() == 1);
  CHECK(survivor().held() == 4);
  CHECK(survivor().deadline() == never);
  CHECK(broken(invariants) == "nothing");
}

}  // namespace gv
