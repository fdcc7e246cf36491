// A single member among hostile ones, which replay old statements or ask and sign without end.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "consensus/membership/membership.hpp"
#include "tests/consensus/lone_member.hpp"
#include "tests/consensus/trust_swarm.hpp"

namespace gv {
namespace {

using members::Lone;
using members::member_of;
using members::peer_of;
using members::peers_below;
using members::quiet;

TEST_CASE("what others pass on of a peer's earlier run decides nothing before the peer is known",
          "[membership][unit]") {
  Lone lone(5);
  const auto shown = [&lone](int peer) {
    Progress report;
    lone.membership.for_each_report([&](const Member& member, const Progress& progress) {
      if (member.id == peer_of(peer)) report = progress;
    });
    return report;
  };
  const auto stated_earlier = [](int peer, std::uint64_t step) {
    Member earlier = member_of(peer);
    earlier.version = step;
    earlier.progress = {.step = step, .phase = Phase::done};
    restate(earlier, signer_of(earlier.id));
    return earlier;
  };
  for (const int peer : {2, 3, 4}) {
    lone.hear(1, stated_earlier(peer, 900));
    CHECK(lone.membership.find(peer_of(peer))->progress.phase == Phase::done);
    CHECK(shown(peer) == Progress{});
  }
  // Peer 2 reports over its own link.
  const Progress present{.step = 1, .phase = Phase::training};
  lone.receive(2, Ping{.sequence = 1, .progress = present, .rumors = {}});
  lone.hear(1, stated_earlier(2, 950));
  CHECK(shown(2) == present);
  // Peer 3 never does, as a peer to which no link can be opened. Peer 4 does not run at all.
  lone.hear(1, member_of(4, MemberState::suspect));
  lone.live_for(29, false);
  lone.membership.tick(lone.now, lone.out);
  CHECK(shown(3) == Progress{});
  lone.live_for(2, false);
  lone.membership.tick(lone.now, lone.out);
  CHECK(shown(3).phase == Phase::done);
  CHECK(shown(4) == Progress{});
}

TEST_CASE("a peer that signs endless statements has few of them verified", "[membership][unit]") {
  const CountingSigner signer(peer_of(0), 42);
  Membership membership(member_of(0), peers_below(3), quiet(), signer, Rng(1));
  Effects out;
  Time now{};
  // All verified statements, if peer `from` sends the next 500 of peer `of`.
  auto verified = [&, version = std::uint64_t{0}](int from, int of) mutable {
    PushPull table;
    for (int i = 0; i < 500; ++i) {
      Member member = member_of(of);
      member.version = ++version;
      restate(member, signer_of(member.id));
      table.members.push_back(member);
    }
    const std::size_t before = signer.checked;
    membership.receive(now, peer_of(from), table, out);
    return signer.checked - before;
  };
  CHECK(verified(1, 1) == 16);
  CHECK(verified(1, 1) == 0);
  now += std::chrono::seconds(1);
  CHECK(verified(1, 1) == 4);
  // Old statements of peer 2 that peer 1 passes on do not keep peer 2 from stating new ones.
  CHECK(verified(1, 2) == 16);
  CHECK(verified(2, 2) == 16);
  CHECK(std::ranges::none_of(
      out.facts, [](const Fact& fact) { return std::holds_alternative<MessageRefused>(fact); }));
}

TEST_CASE("a peer that asks for new statements without end gets a few", "[membership][unit]") {
  Membership::Options options = quiet();
  options.probe_timeout = std::chrono::milliseconds(500);
  Lone lone(3, options);
  const auto renewals = [&lone] {
    const std::uint64_t before = lone.membership.self().version;
    for (int i = 0; i < 100; ++i) {
      const std::uint64_t version = lone.membership.self().version;
      lone.receive(1, Ping{.sequence = 1, .progress = {}, .rumors = {}, .newer_than = version});
    }
    return lone.membership.self().version - before;
  };
  CHECK(renewals() == 4);
  lone.now += options.probe_timeout;
  CHECK(renewals() == 1);
}

TEST_CASE("a peer that asks for the whole table without end gets it a few times",
          "[membership][unit]") {
  // Peer 3 finds no place in the table, so whatever it sends is answered with the table.
  const int asker = GENERATE(1, 3);
  Membership::Options options = quiet();
  options.probe_timeout = std::chrono::milliseconds(500);
  options.members_max = 3;
  Lone lone(4, options);
  const auto tables = [&lone, asker] {
    lone.out = {};
    for (int i = 0; i < 100; ++i) {
      lone.receive(asker, PushPull{.reply = true});
      lone.receive(asker, Ping{.sequence = 0, .progress = {}, .rumors = {}});
    }
    return std::ranges::count_if(lone.out.messages, [](const Outgoing& outgoing) {
      return std::holds_alternative<PushPull>(outgoing.message);
    });
  };
  CHECK(tables() == 4);
  lone.now += options.probe_timeout;
  CHECK(tables() == 1);
}

}  // namespace
}  // namespace gv
