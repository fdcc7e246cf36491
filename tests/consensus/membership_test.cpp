// Whole clusters that survive stalls, crashes and partitions.
#include "consensus/membership/membership.hpp"

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/consensus/member_cluster.hpp"

namespace gv {
namespace {

using members::at_seconds;
using members::Cluster;
using members::peer_of;
using members::peers_below;
using members::suspicion_longest;

/// Largest number of periods from a death until all peers have noticed it: the time to the first
/// probe of the dead peer (SWIM 4.3), the suspicion, and the time for the news to spread.
double death_known_within(int peers) { return 2 * peers - 1 + suspicion_longest(peers) + 10; }

Cluster settled_cluster(int peers, std::uint64_t seed, double loss = 0) {
  Cluster cluster({.peers = peers, .seed = seed, .membership = {}});
  cluster.join();
  REQUIRE(cluster.run_until([&] { return cluster.settled(); }, 30.0));
  cluster.set_loss(loss);
  return cluster;
}

Cluster::Options eventful(std::uint64_t seed) {
  return {.peers = 6, .seed = seed, .membership = {}, .loss = 0.1, .duplication = 0.1};
}

/// Puts a cluster through message loss, a stall, a crash, a partition and a leave, one after
/// another.
void live_through_everything(Cluster& cluster) {
  cluster.join();
  cluster.run_for(10);
  cluster.stop(1);
  cluster.run_for(40);
  cluster.cont(1);
  cluster.run_for(20);
  cluster.kill(2);
  cluster.run_for(40);
  cluster.restart(2);
  cluster.contact(2, 3);
  cluster.run_for(10);
  cluster.cut_between_halves();
  cluster.run_for(50);
  cluster.heal();
  cluster.run_for(40);
  cluster.leave(4);
  cluster.run_for(30);
}

// ---- Joining ----

TEST_CASE("sixteen peers that contact the same one agree within seconds", "[membership][unit]") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Cluster cluster({.peers = 16, .seed = seed, .membership = {}});
    cluster.join();
    // A peer introduces itself to each peer that it learns of, so it need not wait for rumours to
    // spread.
    CHECK(cluster.run_until([&] { return cluster.settled(); }, 1.0));
    for (int i = 1; i < 16; ++i) CHECK(cluster.at(i).view() == cluster.at(0).view());
  }
}

TEST_CASE("a peer that only one other can reach learns of all others within seconds",
          "[membership][unit]") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Cluster cluster({.peers = 4, .seed = seed, .membership = {}});
    cluster.cut(1, 2);
    cluster.cut(3, 2);
    for (int i = 1; i < 4; ++i) cluster.contact(i, 0);
    CHECK(cluster.run_until([&] { return cluster.at(2).view().size() == 4; }, 3.0));
  }
}

TEST_CASE("a stranger that contacts everybody is in no view", "[membership][unit]") {
  Cluster cluster({.peers = 5, .seed = 1, .membership = {}});
  for (int i = 0; i < 4; ++i) cluster.authorize(i, peers_below(4));
  cluster.join();
  for (int i = 0; i < 4; ++i) cluster.contact(4, i);
  cluster.run_for(30);
  for (int i = 0; i < 4; ++i) CHECK(cluster.at(i).view() == View(peers_below(4)));
  CHECK(cluster.count<MessageRefused>(-1, 4) >= 4);
}

TEST_CASE("time spent alone before the first contact is no stall", "[membership][unit]") {
  Cluster cluster({.peers = 6, .seed = 1, .membership = {}});
  cluster.run_until(at_seconds(100));
  cluster.join();
  cluster.run_for(0.2);
  for (int i = 0; i < 6; ++i) CHECK(cluster.at(i).local_health() == 0);
}

// ---- Deaths ----

TEST_CASE("a killed peer is dead everywhere within the bound and only there is a grave",
          "[membership][unit]") {
  const int victim = GENERATE(0, 5);  // Peer 0 is the one that all others contacted first.
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Cluster cluster = settled_cluster(16, seed);
    cluster.kill(victim);
    CHECK(cluster.run_until([&] { return cluster.all_hold(victim, MemberState::dead); },
                            death_known_within(16)));
    cluster.run_for(60);
    CHECK(cluster.settled());
    CHECK(cluster.count<MemberDead>() == 15);
    CHECK(cluster.count<MemberDead>(-1, victim) == 15);
  }
}

TEST_CASE("a peer that stands still for two seconds is not declared dead", "[membership][unit]") {
  const int peers = GENERATE(4, 8);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Cluster cluster = settled_cluster(peers, seed);
    cluster.run_for(3 + 0.17 * static_cast<double>(seed));
    cluster.stop(1);
    cluster.run_for(2);
    cluster.cont(1);
    cluster.run_for(60);
    CHECK(cluster.count<MemberDead>() == 0);
    CHECK(cluster.settled());
  }
}

TEST_CASE("a peer that stands still for a minute is dead to all and returns",
          "[membership][unit]") {
  const int peers = GENERATE(4, 8);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Cluster cluster = settled_cluster(peers, seed);
    cluster.run_for(5);
    cluster.stop(1);
    cluster.run_for(60);
    CHECK(cluster.all_hold(1, MemberState::dead));
    cluster.cont(1);
    CHECK(cluster.run_until([&] { return cluster.settled(); }, 15.0));
    cluster.run_for(60);
    CHECK(cluster.settled());
    CHECK(cluster.all_hold(1, MemberState::alive));
    CHECK(cluster.count<SelfRefuted>(1) >= 1);
    CHECK(cluster.count<MemberReturned>(-1, 1) == peers - 1);
    CHECK(cluster.count<MemberDead>(-1, 1) == peers - 1);
  }
}

TEST_CASE("a peer blames nobody else for its own stall", "[membership][unit]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Cluster cluster = settled_cluster(6, seed);
    cluster.run_for(3 + 0.13 * static_cast<double>(seed));
    cluster.stop(1);
    cluster.run_for(60);
    cluster.cont(1);
    cluster.run_for(60);
    CHECK(cluster.count<MemberDead>(1) == 0);
    CHECK(cluster.settled());
  }
}

TEST_CASE("a peer that was accused fifty times is healthy after eight probes",
          "[membership][unit]") {
  Cluster cluster = settled_cluster(4, 1);
  for (int accusation = 0; accusation < 50; ++accusation) {
    Member rumor = cluster.at(1).self();
    rumor.state = MemberState::suspect;
    Effects out;
    cluster.at(1).receive(cluster.now(), peer_of(2), Ping{1, {}, {rumor}}, out);
    cluster.run_for(0.6);  // The peer refutes one accusation every half second.
  }
  CHECK(cluster.at(1).local_health() == 8);
  // At a local health of h, the next probe follows after h + 1 periods. Each probe lowers h by one.
  CHECK(cluster.run_until([&] { return cluster.at(1).local_health() == 0; }, 52.0));
  CHECK(cluster.settled());
}

TEST_CASE("peers that cannot hear each other one way stay alive through the others",
          "[membership][unit]") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Cluster cluster = settled_cluster(4, seed);
    cluster.cut(1, 2);
    cluster.run_for(120);
    CHECK(cluster.count<MemberDead>() == 0);
    CHECK(cluster.settled());
  }
}

TEST_CASE("ten minutes of a tenth of all messages lost kill nobody", "[membership][unit]") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    Cluster cluster = settled_cluster(8, seed, 0.1);
    cluster.run_for(600);
    CHECK(cluster.count<MemberDead>() == 0);
    CHECK(cluster.settled());
  }
}

TEST_CASE("two halves hold each other for dead and are one again after healing",
          "[membership][unit]") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Cluster cluster = settled_cluster(8, seed);
    cluster.cut_between_halves();
    cluster.run_for(60);
    for (int i = 0; i < 8; ++i) CHECK(cluster.at(i).view().size() == 4);
    CHECK(cluster.count<MemberDead>() == 32);
    cluster.heal();
    CHECK(cluster.run_until([&] { return cluster.settled(); }, 30.0));
    cluster.run_for(60);
    CHECK(cluster.settled());
    CHECK(cluster.count<MemberDead>() == 32);
    CHECK(cluster.count<MemberReturned>() == 32);
  }
}

TEST_CASE("the dead are forgotten everywhere in the end", "[membership][unit]") {
  Cluster::Options options{.peers = 5, .seed = 1, .membership = {}};
  options.membership.forget_dead_after = std::chrono::seconds(60);
  Cluster cluster(options);
  cluster.join();
  cluster.run_for(10);
  cluster.kill(3);
  REQUIRE(cluster.run_until([&] { return cluster.all_hold(3, MemberState::dead); },
                            death_known_within(5)));
  cluster.run_for(40);
  CHECK(cluster.all_hold(3, MemberState::dead));
  cluster.run_for(30);
  for (const int i : {0, 1, 2, 4}) CHECK(cluster.at(i).find(peer_of(3)) == nullptr);
}

// ---- Leaving and returning ----

TEST_CASE("a peer that leaves is left everywhere and never dead", "[membership][unit]") {
  Cluster cluster = settled_cluster(6, 1);
  cluster.leave(2);
  CHECK(cluster.run_until([&] { return cluster.all_hold(2, MemberState::left); }, 1.0));
  cluster.run_for(120);
  CHECK(cluster.all_hold(2, MemberState::left));
  CHECK(cluster.count<MemberDead>() == 0);
  CHECK(cluster.at(2).deadline() == never);
}

TEST_CASE("a peer started again elsewhere returns with a higher incarnation and its new address",
          "[membership][unit]") {
  // The peer is away so briefly that no peer notices, or long enough to be declared dead.
  const double away = GENERATE(0.5, 90.0);
  Cluster cluster = settled_cluster(6, 1);
  cluster.kill(2);
  cluster.run_for(away);
  cluster.restart(2);
  cluster.contact(2, 4);
  const auto back = [&] {
    for (int i = 0; i < 6; ++i) {
      const Member* member = cluster.at(i).find(peer_of(2));
      if (member == nullptr || member->address != "host2:2") return false;
      if (member->incarnation == 0 || member->state != MemberState::alive) return false;
    }
    return cluster.settled();
  };
  CHECK(cluster.run_until(back, 15.0));
  cluster.run_for(60);
  CHECK(back());
}

TEST_CASE("a peer that left returns when it is started again", "[membership][unit]") {
  Cluster cluster = settled_cluster(6, 1);
  cluster.leave(2);
  cluster.run_for(5);
  cluster.restart(2);
  cluster.contact(2, 4);
  CHECK(cluster.run_until([&] { return cluster.settled(); }, 15.0));
  CHECK(cluster.all_hold(2, MemberState::alive));
}

// ---- Laws of every call ----

TEST_CASE("the same run of a cluster has the same effects", "[membership][unit]") {
  std::string first;
  std::string second;
  for (std::string* transcript : {&first, &second}) {
    Cluster cluster(eventful(3));
    cluster.transcript = transcript;
    live_through_everything(cluster);
  }
  CHECK(first.size() > 100000);
  CHECK((first == second));
}

TEST_CASE("a second tick at the same time does nothing and nothing stays due",
          "[membership][unit]") {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    Cluster cluster(eventful(seed));
    cluster.on_tick = [&](Membership& membership, Time now, const Effects&) {
      const std::vector<Member> before = membership.members();
      const Time due = membership.deadline();
      Effects again;
      membership.tick(now, again);
      const bool same = before == membership.members() && due == membership.deadline();
      if (!same || !members::describe(again).empty() || due <= now) ++wrong;
    };
    live_through_everything(cluster);
  }
  CHECK(wrong == 0);
}

TEST_CASE("a message that arrives twice changes no more than once", "[membership][unit]") {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    Cluster cluster(eventful(seed));
    cluster.on_receive = [&](Membership& membership, Time now, const Envelope& envelope,
                             const Effects&) {
      const std::vector<Member> before = membership.members();
      Effects again;
      membership.receive(now, envelope.from, envelope.message, again);
      if (before != membership.members()) ++wrong;
    };
    live_through_everything(cluster);
  }
  CHECK(wrong == 0);
}

TEST_CASE("one call sends no more messages than the view has members and a few",
          "[membership][unit]") {
  constexpr std::size_t few = 8;
  std::size_t excess = 0;
  const auto weigh = [&](const Membership& membership, const Effects& out) {
    if (out.messages.size() > membership.view().size() + few) ++excess;
  };
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    Cluster cluster(eventful(seed));
    cluster.on_tick = [&](Membership& membership, Time, const Effects& out) {
      weigh(membership, out);
    };
    cluster.on_receive = [&](Membership& membership, Time, const Envelope&, const Effects& out) {
      weigh(membership, out);
    };
    live_through_everything(cluster);
  }
  CHECK(excess == 0);
}

}  // namespace
}  // namespace gv
