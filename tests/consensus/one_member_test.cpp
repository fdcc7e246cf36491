// A single member that receives messages from other peers, which the test plays.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "consensus/membership/membership.hpp"
#include "tests/consensus/lone_member.hpp"

namespace gv {
namespace {

using members::at_seconds;
using members::Lone;
using members::member_of;
using members::peer_of;
using members::peers_below;
using members::quiet;
using members::suspicion_longest;

// ---- Joining ----

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
  REQUIRE(lone.out.facts.size() == 1);
  const auto* refused = std::get_if<MessageRefused>(&lone.out.facts[0]);
  REQUIRE(refused != nullptr);
  CHECK(refused->peer == peer_of(7));
  CHECK(refused->reason == Reason::unknown_peer);
  CHECK(lone.out.messages.empty());
  CHECK(lone.membership.members() == before);
}

TEST_CASE("a suspicion learned on joining late ends no later than any other",
          "[membership][unit]") {
  Membership late(member_of(0), peers_below(8), {}, signer_of(peer_of(0)), Rng(1));
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

// ---- Trusted news ----

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

TEST_CASE("a peer that is suspected again and again answers once in the time of a probe",
          "[membership][unit]") {
  Membership::Options options = quiet();
  options.probe_timeout = std::chrono::milliseconds(500);
  Lone lone(4, options);
  const auto refutations = [&lone] {
    return std::ranges::count_if(
        lone.out.facts, [](const Fact& fact) { return std::holds_alternative<SelfRefuted>(fact); });
  };
  // One message accuses the current incarnation and the next nineteen.
  std::vector<Member> accusations;
  for (std::uint64_t incarnation = 0; incarnation < 20; ++incarnation) {
    Member accusation = member_of(0, MemberState::suspect, incarnation);
    accusation.version = 0;
    accusations.push_back(accusation);
  }
  lone.receive(1, Ping{.sequence = 1, .progress = {}, .rumors = accusations});
  CHECK(lone.membership.self().incarnation == 1);
  CHECK(lone.membership.local_health() == 1);
  CHECK(refutations() == 1);
  CHECK(lone.out.messages.size() == 4);  // One answer, and one message to every other peer.
  lone.hear(2, accusations[1]);
  CHECK(lone.membership.self().incarnation == 1);
  // After a pause, another accusation is refuted again.
  lone.now += options.probe_timeout;
  lone.hear(2, accusations[1]);
  CHECK(lone.membership.self().incarnation == 2);
  CHECK(lone.membership.local_health() == 2);
  CHECK(refutations() == 2);
  // A statement by an earlier process of ours is overruled at once.
  lone.hear(1, member_of(0, MemberState::suspect, 7));
  CHECK(lone.membership.self().incarnation == 8);
  CHECK(refutations() == 2);
}

TEST_CASE("a raised incarnation refutes a suspicion", "[membership][unit]") {
  Lone lone(4);
  lone.hear(1, member_of(2, MemberState::suspect));
  CHECK(lone.state(2) == MemberState::suspect);
  lone.hear(3, member_of(2, MemberState::alive, 0));
  CHECK(lone.state(2) == MemberState::suspect);
  lone.hear(3, member_of(2, MemberState::alive, 1));
  CHECK(lone.state(2) == MemberState::alive);
  CHECK(std::holds_alternative<MemberRefuted>(lone.out.facts.back()));
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

TEST_CASE("nothing in a peer's name is believed without its signature", "[membership][unit]") {
  Lone lone(4);
  Member claim = member_of(2);
  claim.progress.step = 1000;
  Member address = member_of(2);
  address.address = "elsewhere:1";
  address.version = 7;
  Member life = member_of(2, MemberState::alive, 3);
  life.incarnation = 50;
  Member other_key = member_of(2, MemberState::alive, 9);
  other_key.signature = signer_of(peer_of(1)).sign({});
  Member layout = member_of(2, MemberState::suspect, 1);
  layout.layout_hash = 77;
  Member ourselves = member_of(0, MemberState::alive, 1);
  ourselves.address = "elsewhere:1";
  claim.version = 2;
  const std::vector<Member> before = lone.membership.members();
  for (const Member& forged : {claim, address, life, other_key, layout, ourselves}) {
    lone.out = {};
    // Nothing that follows a forgery in the same message is believed either.
    lone.receive(1, PushPull{.members = {forged, member_of(3, MemberState::alive, 4)}});
    CHECK(lone.membership.members() == before);
    REQUIRE(lone.out.facts.size() == 1);
    const auto* refused = std::get_if<MessageRefused>(&lone.out.facts[0]);
    REQUIRE(refused != nullptr);
    CHECK(refused->peer == peer_of(1));
    CHECK(refused->reason == Reason::forged);
  }
}

TEST_CASE("a dead peer is not kept alive by others that speak in its name", "[membership][unit]") {
  Lone lone(4);
  Member rumor = member_of(2);
  lone.hear(1, member_of(2, MemberState::suspect));
  for (int second = 1; second <= 120; ++second) {
    lone.live_for(1, true);
    ++rumor.incarnation;
    lone.hear(1, rumor);
  }
  CHECK(lone.state(2) == MemberState::dead);
  CHECK_FALSE(lone.membership.view().contains(peer_of(2)));
}

TEST_CASE("an old statement that is told again changes nothing", "[membership][unit]") {
  Lone lone(4);
  Member first = member_of(2);
  Member second = first;
  second.progress.step = 80;
  restate(second, signer_of(second.id));
  lone.hear(3, second);
  CHECK(lone.membership.find(peer_of(2))->progress.step == 80);
  const std::vector<Member> before = lone.membership.members();
  lone.hear(1, first);
  CHECK(lone.membership.members() == before);
}

TEST_CASE("what a peer says over its own link goes no further than its signature",
          "[membership][unit]") {
  Lone lone(4);
  lone.receive(2, Ping{.sequence = 1, .progress = {.step = 500}, .rumors = {}});
  CHECK(lone.membership.find(peer_of(2))->progress.step == 500);
  lone.out = {};
  lone.receive(1, PushPull{.reply = true});
  const auto& told = std::get<PushPull>(lone.out.messages.back().message).members;
  const auto about = std::ranges::find(told, peer_of(2), &Member::id);
  REQUIRE(about != told.end());
  CHECK(about->progress.step == 0);
  CHECK(is_signed(*about, signer_of(peer_of(0))));
}

TEST_CASE("our statement is renewed every five seconds at most while only steps change",
          "[membership][unit]") {
  Lone lone(4);
  Progress progress{.step = 0, .steps_per_second = 1, .phase = Phase::training};
  const std::uint64_t before = lone.membership.self().version;
  lone.membership.set_progress(progress);
  const std::uint64_t at_start = lone.membership.self().version;
  CHECK(at_start == before + 1);  // A change of phase is announced at once.
  for (int tenth = 1; tenth <= 300; ++tenth) {
    progress.step += 10;
    lone.membership.set_progress(progress);
    lone.now += std::chrono::milliseconds(100);
    lone.hear(1, member_of(1));
  }
  const std::uint64_t made = lone.membership.self().version - at_start;
  CHECK(made >= 5);
  CHECK(made <= 7);
}

TEST_CASE("a peer that was started again overrules what its earlier process stated",
          "[membership][unit]") {
  Lone lone(4);
  Member earlier = member_of(0);
  earlier.address = "where it was:1";
  earlier.version = 12;
  restate(earlier, signer_of(peer_of(0)));
  lone.hear(1, earlier);
  CHECK(lone.membership.self().incarnation == 1);
  CHECK(is_later_statement(lone.membership.self(), earlier));
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

// ---- The table ----

TEST_CASE("a member struck off the allow-list is out at once and the hash follows",
          "[membership][unit]") {
  Lone lone(5);
  const std::uint64_t before = lone.membership.view().hash();
  lone.membership.authorize(lone.now, peers_below(4), lone.out);
  CHECK(lone.membership.find(peer_of(4)) == nullptr);
  CHECK(lone.membership.view() == View(peers_below(4)));
  CHECK(lone.membership.view().hash() != before);
  REQUIRE(lone.out.facts.size() == 1);
  CHECK(std::holds_alternative<MemberRemoved>(lone.out.facts[0]));
  lone.hear(4, member_of(4));
  CHECK(std::holds_alternative<MessageRefused>(lone.out.facts.back()));
}

TEST_CASE("nothing more is sent to a member struck off the allow-list", "[membership][unit]") {
  Lone lone(5);
  lone.receive(4, PingRequest{.sequence = 9, .target = peer_of(1), .rumors = {}});
  lone.membership.authorize(lone.now, peers_below(4), lone.out);
  lone.out = {};
  lone.now = at_seconds(3600);  // The probe that this member requested ended long ago.
  lone.membership.tick(lone.now, lone.out);
  CHECK(std::ranges::none_of(lone.out.messages,
                             [](const Outgoing& outgoing) { return outgoing.to == peer_of(4); }));
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
  REQUIRE_FALSE(lone.out.messages.empty());
  // The receiver gets our newest progress before any statement, because a statement may be older.
  CHECK(std::holds_alternative<Ping>(lone.out.messages.front().message));
  for (const Outgoing& outgoing : lone.out.messages) {
    const auto* part = std::get_if<PushPull>(&outgoing.message);
    if (part == nullptr) continue;
    CHECK(part->members.size() <= 128);
    replies += part->reply ? 1 : 0;
    entries += part->members.size();
    for (const Member& member : part->members) named.insert(member.id);
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

TEST_CASE("a stall before a change of the allow-list ends no suspicion", "[membership][unit]") {
  Lone lone(4, Membership::Options{});
  lone.hear(1, member_of(2, MemberState::suspect));
  lone.now = at_seconds(60);
  lone.membership.authorize(lone.now, peers_below(4), lone.out);
  lone.membership.tick(lone.now, lone.out);
  CHECK(lone.state(2) == MemberState::suspect);
  lone.live_for(suspicion_longest(4) + 10, false);
  CHECK(lone.state(2) == MemberState::dead);
}

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
  lone.now = lone.membership.deadline();  // The probe has timed out, so the member asks others.
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

TEST_CASE("a helper's word that it reached a peer needs a new statement of that peer",
          "[membership][unit]") {
  enum class Shown { nothing, known, forged, later };
  const Shown shown = GENERATE(Shown::nothing, Shown::known, Shown::forged, Shown::later);
  Lone lone(5, Membership::Options{});
  lone.now = lone.membership.deadline();
  lone.membership.tick(lone.now, lone.out);
  const Outgoing asked = lone.out.messages.front();
  const PingRequest& request = std::get<PingRequest>(asked.message);
  Member target = *lone.membership.find(request.target);
  if (shown == Shown::forged) ++target.version;
  if (shown == Shown::later) restate(target, signer_of(target.id));
  std::vector<Member> rumors(shown == Shown::nothing ? 0 : 1, target);
  lone.membership.receive(lone.now, asked.to,
                          Ack{request.sequence, request.target, {}, std::move(rumors)}, lone.out);
  lone.now = at_seconds(1);
  lone.membership.tick(lone.now, lone.out);
  const bool is_believed = shown == Shown::later;
  CHECK(lone.membership.find(request.target)->state ==
        (is_believed ? MemberState::alive : MemberState::suspect));
}

TEST_CASE("a forgotten peer comes back by its own word or a later statement",
          "[membership][unit]") {
  Membership::Options options = quiet();
  options.forget_dead_after = std::chrono::seconds(20);
  Lone lone(4, options);
  const Member last = lone.membership.members().back();
  Member gone = last;
  gone.state = MemberState::left;
  const int peer = 3;
  lone.hear(peer, gone);
  REQUIRE(lone.state(peer) == MemberState::left);
  lone.live_for(30, true);
  REQUIRE(lone.membership.find(peer_of(peer)) == nullptr);
  lone.hear(1, last);
  CHECK(lone.membership.find(peer_of(peer)) == nullptr);
  SECTION("a later statement") {
    Member later = last;
    restate(later, signer_of(later.id));
    lone.hear(1, later);
    CHECK(lone.state(peer) == MemberState::alive);
  }
  SECTION("an early statement of a new process") {
    Member again = member_of(peer);
    again.version = 0;
    restate(again, signer_of(again.id));
    lone.hear(peer, again);
    CHECK(lone.state(peer) == MemberState::alive);
  }
  SECTION("a statement that nobody has signed") {
    Member forged = member_of(peer);
    forged.version = 0;
    lone.hear(peer, forged);
    CHECK(lone.membership.find(peer_of(peer)) == nullptr);
  }
}

TEST_CASE("a peer that is probed for another one answers with a statement that is new to it",
          "[membership][unit]") {
  Lone lone(3);
  const Member before = lone.membership.self();
  const auto stated = [&](std::uint64_t newer_than) {
    Ping ping{.sequence = 7, .progress = {}, .rumors = {}, .newer_than = newer_than};
    lone.receive(1, ping);
    const Ack& ack = std::get<Ack>(lone.out.messages.back().message);
    const auto own = std::ranges::find(ack.rumors, before.id, &Member::id);
    return own == ack.rumors.end() ? std::nullopt : std::optional(*own);
  };
  CHECK_FALSE(stated(0));
  const auto later = stated(before.version);
  REQUIRE(later);
  CHECK(is_later_statement(*later, before));
  CHECK(is_signed(*later, signer_of(before.id)));
  // One new statement serves all peers that ask. A request for a version that we have not reached
  // changes nothing.
  CHECK(stated(before.version) == later);
  CHECK(stated(before.version + 1000) == later);
  // A helper passes on the version number that the asker knows.
  lone.receive(1, PingRequest{.sequence = 8, .target = peer_of(2), .rumors = {}, .newer_than = 41});
  CHECK(std::get<Ping>(lone.out.messages.back().message).newer_than == 41);
}

// ---- Reports ----

TEST_CASE("a report goes to all live members, which answer only if they are asked",
          "[membership][unit]") {
  const bool asks = GENERATE(false, true);
  Lone lone(3);
  lone.membership.set_progress({.step = 7});
  lone.membership.report(asks, lone.out);
  REQUIRE(lone.out.messages.size() == 2);
  const Message report = lone.out.messages[0].message;
  REQUIRE(std::holds_alternative<Ping>(report));
  CHECK(std::get<Ping>(report).rumors.empty());
  lone.out = {};
  lone.receive(1, report);
  CHECK(lone.membership.find(peer_of(1))->progress.step == 7);
  CHECK(lone.out.messages.size() == (asks ? 1U : 0U));
}

// ---- Ticks ----

TEST_CASE("a death that ends another suspicion is followed up in the same tick",
          "[membership][unit]") {
  Lone lone(3);  // A suspicion lasts a short time with two members and a long time with three.
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

}  // namespace
}  // namespace gv
