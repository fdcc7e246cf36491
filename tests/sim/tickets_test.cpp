// Virtual swarms whose peers join by tickets: which peers become members, and how fast all other
// peers learn of them.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "consensus/trust/trust.hpp"
#include "sim/virtual/swarm.hpp"
#include "sim/virtual/trust_invariants.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// Peers that join by tickets and do hardly anything else.
Simulator::Options ticket_world(std::size_t peers, std::uint64_t seed) {
  Simulator::Options options = small_world(peers, seed, 4);
  options.scenario.tickets = true;
  options.scenario.step = 1s;
  options.scenario.until = 1h;
  options.scenario.links = {every_link({.latency = 20ms})};
  return options;
}

bool accepts(const Simulator& world, PeerNumber number, PeerId key) {
  return world.peer(number).node->trust()->accepted(key_of(key)) != nullptr;
}

bool is_up(const Simulator& world, PeerNumber number) {
  return world.peer(number).state == PeerState::up;
}

/// True if all peers that are up and admitted accept the same keys.
bool have_one_list(const Simulator& world) {
  std::vector<PeerKey> first;
  for (PeerNumber number = 0; number < world.size(); ++number) {
    if (!is_up(world, number) || is_out(world, number)) continue;
    std::vector<PeerKey> keys;
    for (const Certificate& one : world.peer(number).node->trust()->accepted()) {
      keys.push_back(one.key);
    }
    if (first.empty()) first = keys;
    if (keys != first) return false;
  }
  return true;
}

/// Seconds from the end of the partition until all peers accept the same keys, and no revoked key.
double settling_s(std::size_t peers, std::size_t invitations, std::size_t revocations) {
  Simulator::Options options = ticket_world(peers, 5);
  FaultRule churn = fault(FaultKind::kill, 20s, {.any = peers / 16}, 4s);
  churn.every = 5s;
  options.scenario.faults = {churn, fault(FaultKind::partition, 25s, {.ranges = {{0, peers / 3}}})};
  Simulator world(options, idle_peers(options));
  world.run(Time(20s));
  Rng rng(5);
  // The last third of the virtual peers signs nothing, and some of these peers are revoked.
  const std::size_t first_revoked = peers - peers / 3;
  std::size_t invited = 0;
  std::vector<PeerId> out;
  for (std::size_t i = 0; invited < invitations || out.size() < revocations; ++i) {
    REQUIRE(i < 10 * (invitations + revocations));
    world.run(world.now() + 100ms);
    const auto by = static_cast<PeerNumber>(rng.below(first_revoked));
    if (!is_up(world, by)) continue;
    const bool invites = invited < (out.size() + 1) * invitations / revocations;
    if (invites && invited < invitations) {
      invited += world.invite(by, PeerId{1000 + invited}) ? 1 : 0;
      continue;
    }
    const bool is_virtual = out.size() % 3 == 0;
    const PeerId target = is_virtual ? PeerId{1 + first_revoked + rng.below(peers / 3)}
                                     : PeerId{1000 + rng.below(invited)};
    if (world.revoke_by(by, target)) out.push_back(target);
  }
  world.heal();
  const Time healed = world.now();
  const auto is_settled = [&] {
    bool is_let_in = !have_one_list(world);
    for (PeerNumber number = 0; number < peers; ++number) {
      if (!is_up(world, number) || is_out(world, number)) continue;
      for (const PeerId key : out) is_let_in = is_let_in || accepts(world, number, key);
    }
    return !is_let_in;
  };
  while (!is_settled() && world.now() < healed + 60s) world.run(world.now() + 500ms);
  return seconds(world.now() - healed);
}

}  // namespace

TEST_CASE("virtual peers join by tickets and see each other") {
  Simulator::Options options = ticket_world(8, 1);
  Simulator world(options, idle_peers(options));
  world.run(Time(20s));
  for (PeerNumber number = 0; number < 8; ++number) {
    REQUIRE(is_up(world, number));
    CHECK(world.peer(number).node->membership().view().size() == 8);
  }
  CHECK(have_one_list(world));
}

TEST_CASE("a revoked virtual peer is in no view and leaves") {
  Simulator::Options options = ticket_world(6, 2);
  Simulator world(options, idle_peers(options));
  world.run(Time(20s));
  REQUIRE(world.revoke_by(1, id_of(4)));
  // The revoker no longer has a link with the revoked peer.
  CHECK_FALSE(world.peer(1).node->membership().view().contains(id_of(4)));
  world.run(Time(25s));
  for (const PeerNumber number : {0U, 1U, 2U, 3U, 5U}) {
    CHECK_FALSE(accepts(world, number, id_of(4)));
    CHECK_FALSE(world.peer(number).node->membership().view().contains(id_of(4)));
  }
  CHECK_FALSE(is_up(world, 4));
}

TEST_CASE("virtual peers invite and renew and revoke after the first peer has gone for good") {
  Simulator::Options options = ticket_world(6, 3);
  options.scenario.faults = {fault(FaultKind::leave, 20s, just(0)),
                             fault(FaultKind::join, 40s, just(5))};
  Simulator world(options, idle_peers(options));
  world.run(Time(60s));
  REQUIRE_FALSE(is_up(world, 0));
  REQUIRE(is_up(world, 5));
  CHECK(world.peer(5).node->membership().view().size() == 5);
  const auto missing = check_invitations(world);
  INFO((missing ? missing->what : std::string()));
  CHECK_FALSE(missing);
}

// The side of peers 1 to 4 has a second peer that may revoke. The other side has none: one of its
// two peers was invited by peer 6, and the other may not invite.
TEST_CASE("of two that revoke each other in a partition the one without witnesses is out") {
  Simulator::Options options = ticket_world(8, 4);
  options.scenario.faults = {fault(FaultKind::leave, 15s, just(0)),
                             fault(FaultKind::partition, 20s, {.ranges = {{1, 4}}}, 60s)};
  Simulator world(options, idle_peers(options));
  world.run(Time(25s));
  REQUIRE(world.revoke_by(2, id_of(6)));
  REQUIRE(world.revoke_by(6, id_of(2)));
  world.run(Time(78s));
  CHECK(accepts(world, 3, id_of(2)));
  CHECK(accepts(world, 7, id_of(6)));
  world.run(Time(110s));
  for (const PeerNumber number : {1U, 3U, 4U, 5U, 7U}) {
    REQUIRE(is_up(world, number));
    CHECK(accepts(world, number, id_of(2)));
    CHECK_FALSE(accepts(world, number, id_of(6)));
  }
  // No other peer is dropped, although one of the two had invited some of them.
  CHECK(have_one_list(world));
}

TEST_CASE("drawn worlds with tickets and hostile members keep every invariant") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const DrawnWorld world = as_tickets(as_hostile(draw_world(seed)));
    if (!world.scenario.tickets) continue;
    const Verdict verdict = run_world(world);
    INFO("seed " << seed << (verdict.violation ? ": " + verdict.violation->what : std::string()));
    CHECK_FALSE(verdict.violation);
  }
}

TEST_CASE("invitations and revocations under churn are everywhere soon after healing") {
  CHECK(settling_s(16, 60, 8) <= 30);
}

TEST_CASE("five hundred invitations and fifty revocations are everywhere soon after healing") {
  const double took_s = settling_s(64, 500, 50);
  std::printf(
      "500 invitations, 50 revocations, 64 virtual peers: everywhere %.1f s after healing\n",
      took_s);
  CHECK(took_s <= 30);
}

}  // namespace gv
