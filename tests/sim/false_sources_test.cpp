// A hostile proposer of generations names sources that do not have the state.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <set>
#include <variant>

#include "consensus/generation/equivocation.hpp"
#include "peer/modes/generations.hpp"
#include "sim/virtual/draw.hpp"
#include "sim/virtual/simulator.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t peers = 4;
constexpr PeerNumber liar = 3;
constexpr PeerNumber named = 2;  ///< The peer that the liar names as a source.
constexpr PeerId unknown{77};

enum class Lie {
  circle,  ///< Each peer but the liar has to get the state from another honest peer.
  sound,   ///< All peers have to get the state from an honest peer, which does not have it.
  unknown  ///< All peers have to get the state from a peer that does not exist.
};

DrawnWorld world_of(ModeKind mode) {
  DrawnWorld world{.seed = 7};
  world.config.run.mode = mode;
  world.scenario.peers = peers;
  world.scenario.work = WorkKind::quadratic;
  world.scenario.dimension = 16;
  world.scenario.step = 20ms;
  world.scenario.until = 40s;
  return world;
}

/// The generation with false sources, and with a version that no peer has.
Generation false_generation(Generation generation, Lie lie, const ModelVersion& newest) {
  generation.version = newest;
  generation.version.step += 1000;
  generation.version.samples += 1000;
  if (lie == Lie::unknown) {
    const std::uint32_t all =
        std::accumulate(generation.shares.begin(), generation.shares.end(), 0U);
    generation.shares.push_back(all / static_cast<std::uint32_t>(generation.order.size()));
    generation.order.push_back(unknown);
    if (!generation.hosts.empty()) generation.hosts.push_back(0);
  }
  generation.sources.assign(generation.order.size(), lie == Lie::unknown ? unknown : id_of(named));
  for (std::size_t rank = 0; lie == Lie::circle && rank < generation.order.size(); ++rank) {
    const PeerNumber peer = number_of(generation.order[rank]);
    generation.sources[rank] = id_of(peer == liar ? liar : (peer + 1) % liar);
  }
  return generation;
}

}  // namespace

TEST_CASE("a proposer that names false sources holds up no peer for long and is alone accused",
          "[sim]") {
  const ModeKind mode = GENERATE(ModeKind::allreduce, ModeKind::mixing);
  const Lie lie = GENERATE(Lie::circle, Lie::sound, Lie::unknown);
  CAPTURE(to_string(mode), static_cast<int>(lie));
  const DrawnWorld drawn = world_of(mode);
  Simulator world(simulator_options(drawn), workloads(drawn));
  std::set<PeerId> accused;
  FactWatch facts([&](const Simulator&, PeerNumber teller, const Fact& fact) {
    if (teller == liar) return;
    if (const auto* unsound = std::get_if<UnsoundMessage>(&fact)) accused.insert(unsound->peer);
    if (const auto* refused = std::get_if<LinkQuarantined>(&fact)) accused.insert(refused->peer);
  });
  world.watch(facts);
  const auto first = [&]() -> const Generations& { return *world.peer(0).node->generations(); };
  world.run(Time(4s));
  while (first().current() == nullptr) REQUIRE(world.step(Time(5s)));
  const Generation usual = *first().current();
  REQUIRE(usual.order.size() == peers);
  const std::uint64_t begin = first().step();
  world.run(world.now() + 5s);
  const std::uint64_t undisturbed = first().step() - begin;
  REQUIRE(undisturbed > 50);

  const std::uint64_t before = first().step();
  for (int i = 0; i < 10; ++i) {
    Generation generation = false_generation(usual, lie, first().agreement().version());
    generation.id = {.number = first().agreement().promised().number + 10,
                     .session = 7,
                     .proposer = id_of(liar)};
    const Install install = signed_install(generation, world.signer(id_of(liar)));
    for (PeerNumber peer = 0; peer < liar; ++peer) {
      world.send_from_outside(id_of(liar), peer, Propose{generation.id});
    }
    for (PeerNumber peer = 0; peer < liar; ++peer) {
      world.send_from_outside(id_of(liar), peer, install);
    }
    world.run(world.now() + 1s);
  }
  // In ten seconds undisturbed peers would make twice as many steps as in five.
  CHECK(first().step() - before > undisturbed);
  const std::set<PeerId> liars{id_of(liar)};
  CHECK(accused == (lie == Lie::unknown ? std::set<PeerId>() : liars));
}

}  // namespace gv
