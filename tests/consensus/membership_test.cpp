// Whole clusters live through stalls, crashes and partitions, and one member hears what it may.
#include "consensus/membership/membership.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/consensus/member_cluster.hpp"

namespace gv {
namespace {

using members::at_seconds;
using members::Cluster;
using members::member_of;
using members::peer_of;
using members::peers_below;

/// Probes and push-pulls so rarely that only what it hears matters.
Membership::Options quiet() {
  Membership::Options options;
  options.probe_period = std::chrono::hours(1);
  options.probe_timeout = std::chrono::hours(1);
  options.push_pull_period = std::chrono::hours(1);
  options.forget_dead_after = std::chrono::hours(1);
  return options;
}

/// Peer 0 alone, knowing peers 1 to N-1; the test plays the others.
struct Lone {
  explicit Lone(int peers, Membership::Options options = quiet())
      : membership(member_of(0), peers_below(peers), options, Rng(1)) {
    std::vector<Member> others;
    for (int i = 1; i < peers; ++i) others.push_back(member_of(i));
    receive(1, PushPull{.reply = false, .members = others});
    membership.tick(now, out);
    out = {};
  }

  void receive(int from, const Message& message) {
    membership.receive(now, peer_of(from), message, out);
  }

  void hear(int from, const Member& rumor) {
    receive(from, Ping{.sequence = 1, .progress = {}, .rumors = {rumor}});
  }

  MemberState state(int peer) const { return membership.find(peer_of(peer))->state; }

  /// Ticks whenever it is due, answering each probe or leaving all unanswered.
  void live_for(double amount, bool answer) {
    const Time end = now + from_seconds(amount);
    while (membership.deadline() <= end) {
      now = std::max(now, membership.deadline());
      out = {};
      membership.tick(now, out);
      const std::vector<Outgoing> sent = std::exchange(out.messages, {});
      for (const Outgoing& outgoing : sent) {
        const Ping* ping = std::get_if<Ping>(&outgoing.message);
        if (!answer || ping == nullptr) continue;
        membership.receive(now, outgoing.to, Ack{ping->sequence, outgoing.to, {}, {}}, out);
      }
      highest = std::max(highest, membership.local_health());
      lowest = std::min(lowest, membership.local_health());
    }
    now = end;
  }

  Time now{};
  Membership membership;
  Effects out;
  int highest = 0;  ///< Of the local health.
  int lowest = 0;
};

/// How long a suspicion lasts at most in a cluster of this size.
double suspicion_longest(int peers) {
  const Membership::Options options;
  return seconds(options.suspicion_min) * std::max(1.0, std::log10(peers)) *
         options.suspicion_max_factor;
}

/// From a death to everybody's knowing it: the first probe of it (SWIM 4.3), the suspicion, and
/// the spreading.
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

/// Loss, a stall, a crash, a partition and a leave, one after the other.
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
    // Whoever learns of another introduces itself, so nobody waits for rumours.
    CHECK(cluster.run_until([&] { return cluster.settled(); }, 1.0));
    for (int i = 1; i < 16; ++i) CHECK(cluster.at(i).view() == cluster.at(0).view());
  }
}

TEST_CASE("a peer outside the allow-list does not enter when others speak of it",
          "[membership][unit]") {
  Lone lone(3);
  lone.hear(1, member_of(7));
  lone.receive(2, PushPull{.reply = false, .members = {member_of(7)}});
  CHECK(lone.membership.find(peer_of(7)) == nullptr);
  CHECK_FALSE(lone.membership.view().contains(peer_of(7)));
}

TEST_CASE("a message of a stranger is refused with the reason", "[membership][unit]") {
  Lone lone(3);
  const std::vector<Member> before = lone.membership.members();
  lone.receive(7, PushPull{.reply = true, .members = {member_of(7)}});
  REQUIRE(lone.out.events.size() == 1);
  CHECK(lone.out.events[0].name == "message_refused");
  CHECK(lone.out.events[0].peer == peer_of(7));
  CHECK(lone.out.events[0].reason == Reason::unknown_peer);
  CHECK(lone.out.messages.empty());
  CHECK(lone.membership.members() == before);
}

TEST_CASE("a stranger that contacts everybody is in no view", "[membership][unit]") {
  Cluster cluster({.peers = 5, .seed = 1, .membership = {}});
  for (int i = 0; i < 4; ++i) cluster.authorize(i, peers_below(4));
  cluster.join();
  for (int i = 0; i < 4; ++i) cluster.contact(4, i);
  cluster.run_for(30);
  for (int i = 0; i < 4; ++i) CHECK(cluster.at(i).view() == View(peers_below(4)));
  CHECK(cluster.count("message_refused", -1, 4) >= 4);
}

TEST_CASE("time spent alone before the first contact is no stall", "[membership][unit]") {
  Cluster cluster({.peers = 6, .seed = 1, .membership = {}});
  cluster.run_until(at_seconds(100));
  cluster.join();
  cluster.run_for(0.2);
  for (int i = 0; i < 6; ++i) CHECK(cluster.at(i).local_health() == 0);
}

TEST_CASE("a suspicion learned on joining late ends no later than any other",
          "[membership][unit]") {
  Membership late(member_of(0), peers_below(8), {}, Rng(1));
  const Time joined = at_seconds(100);
  Effects out;
  const auto hear = [&](const Member& member) {
    late.receive(joined, peer_of(1), PushPull{.reply = false, .members = {member}}, out);
  };
  late.contact(joined, peer_of(1), out);
  hear(member_of(1));
  hear(member_of(2, MemberState::suspect));
  hear(member_of(3));
  Time now = joined;
  while (late.find(peer_of(2))->state == MemberState::suspect && now < at_seconds(300)) {
    now = std::max(now, late.deadline());
    late.tick(now, out);
  }
  CHECK(late.find(peer_of(2))->state == MemberState::dead);
  CHECK(now <= joined + from_seconds(suspicion_longest(8)));
}

// ---- Deaths ----

TEST_CASE("a killed peer is dead everywhere within the bound and only there is a grave",
          "[membership][unit]") {
  const int victim = GENERATE(0, 5);  // 0 is the one that everybody contacted first.
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Cluster cluster = settled_cluster(16, seed);
    cluster.kill(victim);
    CHECK(cluster.run_until([&] { return cluster.all_hold(victim, MemberState::dead); },
                            death_known_within(16)));
    cluster.run_for(60);
    CHECK(cluster.settled());
    CHECK(cluster.count("member_dead") == 15);
    CHECK(cluster.count("member_dead", -1, victim) == 15);
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
    CHECK(cluster.count("member_dead") == 0);
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
    CHECK(cluster.count("self_refuted", 1) >= 1);
    CHECK(cluster.count("member_returned", -1, 1) == peers - 1);
    CHECK(cluster.count("member_dead", -1, 1) == peers - 1);
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
    CHECK(cluster.count("member_dead", 1) == 0);
    CHECK(cluster.settled());
  }
}

TEST_CASE("peers that cannot hear each other one way stay alive through the others",
          "[membership][unit]") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Cluster cluster = settled_cluster(4, seed);
    cluster.cut(1, 2);
    cluster.run_for(120);
    CHECK(cluster.count("member_dead") == 0);
    CHECK(cluster.settled());
  }
}

TEST_CASE("ten minutes of a tenth of all messages lost kill nobody", "[membership][unit]") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    Cluster cluster = settled_cluster(8, seed, 0.1);
    cluster.run_for(600);
    CHECK(cluster.count("member_dead") == 0);
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
    CHECK(cluster.count("member_dead") == 32);
    cluster.heal();
    CHECK(cluster.run_until([&] { return cluster.settled(); }, 30.0));
    cluster.run_for(60);
    CHECK(cluster.settled());
    CHECK(cluster.count("member_dead") == 32);
    CHECK(cluster.count("member_returned") == 32);
  }
}

// ---- What is believed ----

TEST_CASE("who hears itself suspected answers with a raised incarnation", "[membership][unit]") {
  Lone lone(4);
  lone.hear(1, member_of(0, MemberState::suspect));
  CHECK(lone.membership.self().incarnation == 1);
  bool answered = false;
  for (const Outgoing& outgoing : lone.out.messages) {
    const Ack* ack = std::get_if<Ack>(&outgoing.message);
    if (ack == nullptr) continue;
    answered = std::ranges::count(ack->rumors, lone.membership.self()) > 0;
  }
  CHECK(answered);
}

TEST_CASE("a raised incarnation refutes a suspicion", "[membership][unit]") {
  Lone lone(4);
  lone.hear(1, member_of(2, MemberState::suspect));
  CHECK(lone.state(2) == MemberState::suspect);
  lone.hear(3, member_of(2, MemberState::alive, 0));
  CHECK(lone.state(2) == MemberState::suspect);
  lone.hear(3, member_of(2, MemberState::alive, 1));
  CHECK(lone.state(2) == MemberState::alive);
  CHECK(lone.out.events.back().name == "member_refuted");
}

TEST_CASE("a third party that says dead only raises suspicion", "[membership][unit]") {
  Lone lone(4);
  lone.hear(1, member_of(2, MemberState::dead));
  CHECK(lone.state(2) == MemberState::suspect);
  CHECK(lone.membership.view().contains(peer_of(2)));
}

TEST_CASE("a member's own word alone makes it left", "[membership][unit]") {
  Lone lone(4);
  lone.hear(1, member_of(2, MemberState::left));
  CHECK(lone.state(2) == MemberState::suspect);
  lone.hear(2, member_of(2, MemberState::left));
  CHECK(lone.state(2) == MemberState::left);
  CHECK_FALSE(lone.membership.view().contains(peer_of(2)));
}

TEST_CASE("an incarnation far in the future is not believed", "[membership][unit]") {
  Lone lone(4);
  const std::vector<Member> before = lone.membership.members();
  constexpr std::uint64_t far = std::uint64_t{1} << 40;
  for (const MemberState state : {MemberState::alive, MemberState::dead}) {
    lone.hear(1, member_of(2, state, far));
    lone.hear(1, member_of(0, state, far));
  }
  CHECK(lone.membership.members() == before);
}

TEST_CASE("what was said of an earlier incarnation no longer counts", "[membership][unit]") {
  Lone lone(4);
  lone.hear(2, member_of(2, MemberState::alive, 5));
  const std::vector<Member> before = lone.membership.members();
  for (const MemberState state : {MemberState::suspect, MemberState::dead, MemberState::left}) {
    lone.hear(1, member_of(2, state, 4));
    lone.hear(2, member_of(2, state, 4));
  }
  CHECK(lone.membership.members() == before);
}

// ---- Leaving and returning ----

TEST_CASE("a peer that leaves is left everywhere and never dead", "[membership][unit]") {
  Cluster cluster = settled_cluster(6, 1);
  cluster.leave(2);
  CHECK(cluster.run_until([&] { return cluster.all_hold(2, MemberState::left); }, 1.0));
  cluster.run_for(120);
  CHECK(cluster.all_hold(2, MemberState::left));
  CHECK(cluster.count("member_dead") == 0);
  CHECK(cluster.at(2).deadline() == never);
}

TEST_CASE("a peer started again elsewhere returns with a higher incarnation and its new address",
          "[membership][unit]") {
  const double away = GENERATE(0.5, 90.0);  // Not yet missed, and dead.
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

// ---- The table ----

TEST_CASE("a member struck off the allow-list is out at once and the hash follows",
          "[membership][unit]") {
  Lone lone(5);
  const std::uint64_t before = lone.membership.view().hash();
  lone.membership.authorize(lone.now, peers_below(4), lone.out);
  CHECK(lone.membership.find(peer_of(4)) == nullptr);
  CHECK(lone.membership.view() == View(peers_below(4)));
  CHECK(lone.membership.view().hash() != before);
  REQUIRE(lone.out.events.size() == 1);
  CHECK(lone.out.events[0].name == "member_removed");
  lone.hear(4, member_of(4));
  CHECK(lone.out.events.back().reason == Reason::unknown_peer);
}

TEST_CASE("nothing more is sent to a member struck off the allow-list", "[membership][unit]") {
  Lone lone(5);
  lone.receive(4, PingRequest{.sequence = 9, .target = peer_of(1), .rumors = {}});
  lone.membership.authorize(lone.now, peers_below(4), lone.out);
  lone.out = {};
  lone.now = at_seconds(3600);  // The probe made for it is long over.
  lone.membership.tick(lone.now, lone.out);
  CHECK(std::ranges::none_of(lone.out.messages,
                             [](const Outgoing& outgoing) { return outgoing.to == peer_of(4); }));
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

TEST_CASE("the table does not grow beyond its limit", "[membership][unit]") {
  Membership::Options options = quiet();
  options.members_max = 8;
  const Lone lone(20, options);
  CHECK(lone.membership.members().size() == 8);
}

TEST_CASE("the state of three hundred members travels in several messages", "[membership][unit]") {
  Lone lone(300);
  lone.membership.receive(lone.now, peer_of(1), PushPull{.reply = true}, lone.out);
  std::set<PeerId> named;
  std::size_t entries = 0;
  int replies = 0;
  for (const Outgoing& outgoing : lone.out.messages) {
    const PushPull& part = std::get<PushPull>(outgoing.message);
    CHECK(part.members.size() <= 128);
    replies += part.reply ? 1 : 0;
    entries += part.members.size();
    for (const Member& member : part.members) named.insert(member.id);
  }
  CHECK(named.size() == 300);
  CHECK(entries == 300);
  CHECK(replies == 0);
}

TEST_CASE("a link to somebody known or in a large swarm brings a word and not the whole table",
          "[membership][unit]") {
  Lone small(8);
  small.membership.contact(small.now, peer_of(1), small.out);
  REQUIRE(small.out.messages.size() == 1);
  CHECK(std::holds_alternative<Ping>(small.out.messages.front().message));
  Lone large(300);
  large.membership.contact(large.now, peer_of(1), large.out);
  REQUIRE(large.out.messages.size() == 1);
  CHECK(std::get<Ping>(large.out.messages.front().message).rumors.size() == 1);
}

// ---- Lifeguard ----

TEST_CASE("every further accuser shortens a suspicion down to the least", "[membership][unit]") {
  Lone lone(8);
  Time before = never;
  for (const int accuser : {1, 3, 4, 5}) {
    lone.hear(accuser, member_of(2, MemberState::suspect));
    CHECK(lone.membership.deadline() < before);
    before = lone.membership.deadline();
    if (accuser == 1) CHECK(before == at_seconds(suspicion_longest(8)));
  }
  CHECK(before == Time{} + Membership::Options{}.suspicion_min);
}

TEST_CASE("an accuser that repeats itself shortens nothing", "[membership][unit]") {
  Lone lone(8);
  lone.hear(1, member_of(2, MemberState::suspect));
  const Time before = lone.membership.deadline();
  lone.hear(1, member_of(2, MemberState::suspect));
  CHECK(lone.membership.deadline() == before);
}

TEST_CASE("local health rises with failed probes and falls with answers within its bounds",
          "[membership][unit]") {
  Membership::Options options;
  options.suspicion_min = std::chrono::hours(1);
  Lone lone(4, options);
  lone.live_for(60, false);
  CHECK(lone.membership.local_health() == 8);
  lone.live_for(60, true);
  CHECK(lone.membership.local_health() == 0);
  CHECK(lone.highest == 8);
  CHECK(lone.lowest == 0);
}

TEST_CASE("helpers that do not even say no speak against our own link", "[membership][unit]") {
  const bool answered = GENERATE(true, false);
  Lone lone(5, Membership::Options{});
  lone.now = lone.membership.deadline();  // The probe's time is up: others are asked.
  lone.membership.tick(lone.now, lone.out);
  const std::vector<Outgoing> asked = std::exchange(lone.out.messages, {});
  REQUIRE(asked.size() == 3);
  for (const Outgoing& outgoing : asked) {
    const PingRequest& request = std::get<PingRequest>(outgoing.message);
    if (!answered) continue;
    lone.membership.receive(lone.now, outgoing.to, Nack{request.sequence, {}}, lone.out);
  }
  lone.now = at_seconds(1);
  lone.membership.tick(lone.now, lone.out);
  CHECK(lone.membership.local_health() == (answered ? 1 : 3));
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

TEST_CASE("a death that ends another suspicion is followed up in the same tick",
          "[membership][unit]") {
  Lone lone(3);  // Among two a suspicion is short, among three it is long.
  lone.hear(1, member_of(2, MemberState::suspect));
  lone.now = at_seconds(5);
  lone.hear(2, member_of(1, MemberState::suspect));
  lone.now = at_seconds(suspicion_longest(3));
  lone.membership.tick(lone.now, lone.out);
  CHECK(lone.membership.deadline() > lone.now);
}

TEST_CASE("a probe that fails late in a suspicion is followed up in the same tick",
          "[membership][unit]") {
  Membership::Options options = quiet();
  options.probe_period = std::chrono::seconds(15);
  options.probe_timeout = std::chrono::seconds(14);
  Lone lone(4, options);
  for (int i = 1; i < 4; ++i) lone.hear(i == 1 ? 2 : 1, member_of(i, MemberState::suspect));
  while (lone.membership.view().size() > 1 && lone.now < at_seconds(60)) {
    lone.now = std::max(lone.now, lone.membership.deadline());
    lone.membership.tick(lone.now, lone.out);
    REQUIRE(lone.membership.deadline() > lone.now);
  }
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
