// Hostile members of virtual swarms: their messages fit the wire format, and vary.
#include "sim/virtual/saboteur.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "net/roster.hpp"
#include "net/wire.hpp"
#include "sim/local/injector.hpp"
#include "sim/virtual/draw.hpp"
#include "sim/virtual/swarm.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

const std::vector<PeerId> peers = {PeerId{1}, PeerId{2}, PeerId{3}, PeerId{4}};

/// True if a real peer's network would deliver the message unchanged.
bool arrives(const Message& message) {
  const Decoded decoded = decode(encode(message));
  return decoded.frame && std::holds_alternative<Message>(*decoded.frame);
}

std::string drawn_without_hostile(DrawnWorld world) {
  world.scenario.saboteurs = {};
  return to_toml(world);
}

/// Counts how peer 0 answers requests for its model.
class ModelAnswers : public Watcher {
 public:
  void on_effects(const Simulator&, PeerNumber peer, const NodeEffects& effects) override {
    if (peer != 0) return;
    for (const Outgoing& sent : effects.messages) {
      accepted += std::holds_alternative<TransferAccepted>(sent.message);
      refused += std::holds_alternative<Refuse>(sent.message);
    }
  }
  int accepted = 0;
  int refused = 0;
};

}  // namespace

TEST_CASE("a peer that asks for stages of a whole model takes the place of no other", "[sim]") {
  const Simulator::Options options = [] {
    Simulator::Options small = small_world(3, 1);
    small.node.gossip.alpha = 0;
    return small;
  }();
  Simulator world(options, idle_peers(options));
  world.run(Time(std::chrono::seconds(5)));
  ModelAnswers answers;
  world.watch(answers);
  const auto ask = [&](PeerNumber from, std::uint32_t stage) {
    world.send_from_outside(id_of(from), 0,
                            StateRequest{.id = state_id(id_of(from), 7, 1, stage),
                                         .layout_hash = options.node.course.layout_hash});
  };
  for (std::uint32_t stage = 1; stage <= 8; ++stage) ask(1, stage);
  ask(2, 0);
  CHECK(answers.accepted == 1);
  CHECK(answers.refused == 0);
}

TEST_CASE("what a saboteur makes up is of every kind and gets through the wire", "[sim]") {
  AnyMessage any(peers, Rng(1));
  std::set<std::size_t> kinds;
  std::set<std::size_t> sound;
  std::size_t refused = 0;
  Message last = Ping{};
  for (int i = 0; i < 20000; ++i) {
    const Message message = i % 2 == 0 ? any.any() : any.changed(last);
    any.learn(message);
    last = message;
    kinds.insert(message.index());
    if (!passes_the_wire(message)) {
      ++refused;
      continue;
    }
    sound.insert(message.index());
    REQUIRE(arrives(message));
  }
  CHECK(kinds.size() == std::variant_size_v<MessageVariant>);
  CHECK(sound.size() == std::variant_size_v<MessageVariant>);
  CHECK(refused < 10000);
}

TEST_CASE("a saboteur says of members only what a roster admits", "[sim]") {
  const auto line = [](PeerId id) {
    return AuthorizedPeer{.name = "peer-" + std::to_string(static_cast<std::uint64_t>(id) - 1)};
  };
  AnyMessage any(peers, Rng(2));
  std::size_t described = 0;
  for (int i = 0; i < 20000; ++i) {
    const Message message = any.any();
    const auto* exchange = std::get_if<PushPull>(&message);
    if (exchange == nullptr) continue;
    for (const Member& member : exchange->members) {
      if (std::ranges::find(peers, member.id) == peers.end()) continue;
      ++described;
      CHECK(member.name == line(member.id).name);
      CHECK(member.incarnation <= std::uint64_t{1} << 48);
    }
  }
  CHECK(described > 100);
}

TEST_CASE("a saboteur speaks to others of its swarm alone and within bounds", "[sim]") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Saboteur saboteur(peers.front(), peers, 1e30F, Rng(seed));
    Deeds deeds;
    for (int i = 0; i < 200; ++i) {
      saboteur.send(Outgoing{peers[1], Ping{.sequence = 5}}, deeds);
      saboteur.act(deeds);
      CHECK(saboteur.pause() > Duration{});
    }
    for (const Outgoing& sent : deeds.messages) {
      CHECK(sent.to != peers.front());
      CHECK(std::ranges::find(peers, sent.to) != peers.end());
      CHECK(passes_the_wire(sent.message));
    }
    CHECK(deeds.messages.size() < 200 * 40);
    for (const LooseBlock& block : deeds.blocks) {
      CHECK(block.payload.bytes.size() <= block_bytes_max);
    }
  }
}

TEST_CASE("hostile peers are fewer than a third and change nothing else of a world", "[sim]") {
  std::size_t hostile = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const DrawnWorld plain = draw_world(seed);
    const DrawnWorld world = as_hostile(plain);
    CHECK(drawn_without_hostile(world) == drawn_without_hostile(plain));
    std::size_t count = 0;
    for (std::size_t peer = 0; peer < world.scenario.peers; ++peer) {
      count += world.scenario.saboteurs.contains(peer);
    }
    CHECK(3 * count < world.scenario.peers);
    CHECK((count > 0) == (world.scenario.peers >= 4));
    hostile += count;
  }
  CHECK(hostile > 200);
}

TEST_CASE("saboteurs that cannot be are refused with what would do") {
  Scenario scenario;
  const auto problem = [&] {
    const Problems problems = problems_with_saboteurs(scenario, 8, "run.toml");
    return problems.empty() ? std::string() : to_string(problems.front());
  };
  CHECK(problem().empty());
  scenario.saboteurs = {.ranges = {{2, 3}}};
  CHECK(problem().empty());
  scenario.saboteurs = {.ranges = {{2, 4}}};
  CHECK(problem().find("3 of 8 peers are a third or more") != std::string::npos);
  scenario.saboteurs = {.ranges = {{8, 8}}};
  CHECK(problem().find("peer 8 is not one of 8") != std::string::npos);
  scenario.saboteurs = {.any = 1};
  CHECK(problem().find("write their numbers") != std::string::npos);
  CHECK(to_string(problems_on_processes(scenario, 8, LaneKind::automatic, "faults.toml").front())
            .find("faults.toml: scenario.saboteurs: only virtual peers can be hostile") !=
        std::string::npos);
}

TEST_CASE("a world with hostile peers repeats bit by bit", "[sim]") {
  DrawnWorld world = as_hostile(draw_world(3));
  world.scenario.until = std::chrono::seconds(10);
  REQUIRE(world.scenario.peers >= 4);
  const Verdict once = run_world(world);
  const Verdict again = run_world(world);
  CHECK(once.hostile > 0);
  CHECK(once.trace_hash == again.trace_hash);
  CHECK(once.events == again.events);
  world.scenario.saboteurs = {};
  CHECK(run_world(world).trace_hash != once.trace_hash);
}

}  // namespace gv
