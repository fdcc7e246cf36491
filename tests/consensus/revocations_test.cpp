// Revocations: which peers may revoke, which revocations count, and that the order of revocations
// does not matter.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tests/consensus/trust_swarm.hpp"

namespace gv {

TEST_CASE("a revocation reaches all peers and a revoked key stays out") {
  TrustSwarm swarm(4);
  for (std::size_t i = 1; i < 4; ++i) REQUIRE(swarm.invite(0, i));
  swarm.pass(4);
  REQUIRE(swarm.revoke(1, "peer-4").empty());
  CHECK(swarm.none_accepts(3));
  CHECK_FALSE(swarm.invite(0, 3));
  hear(swarm.holders[0], {signed_by(2, swarm.holders[3].key, began_s + 5000)}, swarm.now);
  CHECK_FALSE(swarm.accepts(0, 3));
  swarm.pass(certificate_lifetime_s / 2, 50'000);
  CHECK(swarm.none_accepts(3));
}

TEST_CASE("a peer keeps its place when the one that invited it is revoked unless it is to go too") {
  for (const bool with_invited : {false, true}) {
    TrustSwarm swarm(4);
    REQUIRE(swarm.invite(0, 1));
    REQUIRE(swarm.invite(1, 2));
    REQUIRE(swarm.invite(0, 3));
    swarm.pass(4);
    REQUIRE(swarm.revoke(3, "peer-2", with_invited).empty());
    swarm.pass(4);
    CHECK(swarm.none_accepts(1));
    CHECK(swarm.all_accept(2) == !with_invited);
    CHECK(swarm.all_accept(3));
  }
}

TEST_CASE("a peer cannot revoke the one that its own right comes from") {
  TrustSwarm swarm(3);
  REQUIRE(swarm.invite(0, 1));
  REQUIRE(swarm.invite(1, 2));
  swarm.pass(4);
  const Problems problems = swarm.revoke(2, "peer-2");
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].reason.find("right to invite comes from it") != std::string::npos);
  // If a revocation without the right to revoke is sent anyway, it does not count.
  Effects out;
  swarm.holders[0].trust->receive(
      swarm.now, PeerId{3},
      {.held = {}, .certificates = {}, .revocations = {revoked_by(3, 2, {2})}}, View{}, out);
  CHECK(swarm.accepts(0, 1));
  CHECK_FALSE(swarm.revoke(0, "no-such-peer").empty());
  CHECK_FALSE(swarm.revoke(0, "peer-1").empty());
}

TEST_CASE("a revoked peer does not bring itself back by what it signs for its revoker") {
  TrustHolder holder(1);
  // The third peer is nearer to the swarm's key than the fourth, which has invited the fifth.
  hear(holder, {signed_by(999, key_of(2), soon), signed_by(2, key_of(4), soon),
                signed_by(4, key_of(5), soon), signed_by(999, key_of(3), soon)});
  hear(holder, {revoked_by(5, 3, {2, 4})});
  REQUIRE(holder.trust->is_revoked(key_of(3)));
  hear(holder, {signed_by(3, key_of(5), soon + 10), signed_by(3, key_of(77), soon)});
  CHECK(holder.trust->is_revoked(key_of(3)));
  CHECK(holder.trust->accepted(key_of(77)) == nullptr);
  CHECK(holder.trust->accepted(key_of(5))->issuer == key_of(4));
  TrustHolder again(1);
  again.trust->restore({}, holder.trust->certificates(), holder.trust->revocations());
  CHECK(again.trust->is_revoked(key_of(3)));
  CHECK(again.trust->accepted() == holder.trust->accepted());
}

TEST_CASE("revocations of unknown keys take no place from those of known ones") {
  TrustSwarm swarm(3);
  for (std::size_t i = 1; i < 3; ++i) REQUIRE(swarm.invite(0, i));
  std::vector<Revocation> junk;
  for (std::uint64_t i = 0; i < revoked_max + 5; ++i) junk.push_back(revoked_by(2, 100'000 + i));
  hear(swarm.holders[0], junk);
  CHECK(swarm.holders[0].trust->revocations().size() == revoked_max);
  CHECK(swarm.revoke(0, "peer-2").empty());
  CHECK(swarm.holders[0].trust->is_revoked(key_of(2)));
  CHECK_FALSE(swarm.accepts(0, 1));
}

/// Gives each peer but the last a full table of revocations of made-up keys, which the last peer
/// has signed. Each peer gets different keys, while it has no link to the others.
void send_junk(TrustSwarm& swarm) {
  const std::size_t hostile = swarm.holders.size() - 1;
  for (std::size_t peer = 0; peer < hostile; ++peer) {
    Certificates junk;
    for (std::uint64_t i = 0; i < revoked_max; ++i) {
      junk.revocations.push_back(revoked_by(hostile + 1, 100'000 * (i + 1) + peer));
    }
    swarm.away.clear();
    for (std::size_t other = 0; other <= hostile; ++other) {
      if (other != peer) swarm.away.insert(other);
    }
    for (const Certificates& part : in_parts(junk)) {
      swarm.act(peer, [&](Trust& trust, const View& live, Effects& out) {
        trust.receive(swarm.now, swarm.holders[hostile].id, part, live, out);
      });
    }
  }
  swarm.away = {hostile};
}

TEST_CASE("revocations of made-up keys are soon the same everywhere and cost nothing more") {
  TrustSwarm swarm(4);
  for (std::size_t i = 1; i < 4; ++i) REQUIRE(swarm.invite(0, i));
  swarm.pass(4);
  send_junk(swarm);
  swarm.pass(30);
  const auto costs_little = [&swarm] {
    const auto checked = [&swarm] {
      std::size_t sum = 0;
      for (const TrustHolder& holder : swarm.holders) sum += holder.signer->checked;
      return sum;
    };
    const std::size_t messages = swarm.messages, checks = checked();
    swarm.pass(20);
    CHECK(swarm.messages - messages <= 10 * 3 * 2);
    CHECK(checked() == checks);
  };
  costs_little();
  const std::vector<Revocation> kept = swarm.holders[0].trust->revocations();
  CHECK(kept.size() == revoked_max);
  // The hostile peer has signed all the revocations that are kept.
  CHECK(std::ranges::count(kept, key_of(4), &Revocation::issuer) == revoked_max);
  for (std::size_t i = 1; i < 3; ++i) CHECK(swarm.holders[i].trust->revocations() == kept);
  // An honest peer's revocation still reaches all peers. Once the hostile peer is revoked, all its
  // revocations are dropped.
  REQUIRE(swarm.revoke(0, "peer-3").empty());
  CHECK(swarm.none_accepts(2));
  REQUIRE(swarm.revoke(1, "peer-4").empty());
  swarm.pass(30);
  CHECK(swarm.none_accepts(3));
  costs_little();
  for (std::size_t i = 0; i < 3; ++i) {
    for (const Revocation& one : swarm.holders[i].trust->revocations()) {
      CHECK(one.issuer != key_of(4));
    }
  }
}

TEST_CASE("everything is sent again the later the more messages it takes") {
  TrustHolder holder(1);
  std::vector<Revocation> many;
  for (std::uint64_t i = 0; i < 3 * revocations_in_message_max; ++i) {
    many.push_back(revoked_by(999, 1000 + i));
  }
  hear(holder, many);
  std::size_t sent = 0;
  for (std::uint8_t second = 1; second <= 20; ++second) {
    Digest other{};
    other[0] = second;
    Effects out;
    holder.trust->receive(Time{} + std::chrono::seconds(second), PeerId{2},
                          {.held = other, .certificates = {}, .revocations = {}}, View({PeerId{2}}),
                          out);
    sent += out.messages.size();
  }
  CHECK(sent <= 21 + 3);
  CHECK(sent >= 15);
}

TEST_CASE("an issuer replaces its revocations only so often") {
  TrustHolder holder(1);
  const auto newest = [&holder] { return holder.trust->revocations().front().signed_s; };
  Time now{};
  hear(holder, {revoked_by(2, 3, {}, began_s)}, now);
  REQUIRE(newest() == began_s);
  std::vector<Revocation> later;
  for (std::uint64_t i = 1; i <= 100; ++i) later.push_back(revoked_by(2, 3, {}, began_s + i));
  for (const Revocation& one : later) hear(holder, std::vector<Revocation>{one}, now);
  CHECK(newest() == began_s + replacements);
  // Peers compare their revocations, so a revocation that came too soon is offered again.
  now += replacing_every;
  hear(holder, std::vector<Revocation>{later.back()}, now);
  CHECK(newest() == began_s + 100);
}

TEST_CASE("a key that has been revoked or was over when it can have signed revokes no one") {
  TrustHolder holder(1);
  hear(holder, {signed_by(999, key_of(2), soon), signed_by(999, key_of(3), soon),
                signed_by(999, key_of(4), soon), signed_by(999, key_of(5), soon)});
  Revocation late = revoked_by(2, 4);
  late.signed_s = late.chain.back().expires_s + 1;
  late.signature = StandInSigner(PeerId{2}, trust_secret).sign(signed_bytes(late));
  hear(holder, {late});
  CHECK_FALSE(holder.trust->is_revoked(key_of(4)));
  hear(holder, {revoked_by(3, 2), revoked_by(5, 2)});
  REQUIRE(holder.trust->is_revoked(key_of(2)));
  // A revoked peer can revoke neither the peers that revoked it nor any others, not even with an
  // old date.
  hear(holder, {revoked_by(2, 3), revoked_by(2, 4), revoked_by(2, 5, {}, began_s - 500'000)});
  for (const std::uint64_t other : {3, 4, 5}) CHECK_FALSE(holder.trust->is_revoked(key_of(other)));
  CHECK(holder.trust->is_revoked(key_of(2)));
}

TEST_CASE("a revocation is believed for its chain alone and a peer without one is not") {
  // This newcomer knows no certificate of the issuer.
  TrustHolder holder(1);
  hear(holder, {revoked_by(3, 4, {2}), revoked_by(999, 5)});
  CHECK(holder.trust->is_revoked(key_of(4)));
  CHECK(holder.trust->is_revoked(key_of(5)));
  // The chains of revocations that come from an inviter are checked in the same way.
  Revocation bare = revoked_by(3, 6);
  bare.chain.clear();
  bare.signature = StandInSigner(PeerId{3}, trust_secret).sign(signed_bytes(bare));
  Revocation self_made = revoked_by(3, 6);
  self_made.chain = {signed_by(3, key_of(3), soon)};
  self_made.signature = StandInSigner(PeerId{3}, trust_secret).sign(signed_bytes(self_made));
  Revocation by_guest = revoked_by(3, 6);
  by_guest.chain = {signed_by(999, key_of(3), soon, false)};
  by_guest.signature = StandInSigner(PeerId{3}, trust_secret).sign(signed_bytes(by_guest));
  Revocation through_it = revoked_by(3, 6, {6});
  Revocation too_deep = revoked_by(3, 6, {10, 11, 12});
  Revocation other_swarm = revoked_by(3, 6);
  other_swarm.chain.front().swarm = key_of(998);
  holder.trust->restore({}, {}, {bare, self_made, by_guest, through_it, too_deep, other_swarm});
  CHECK_FALSE(holder.trust->is_revoked(key_of(6)));
  // A wrong signature anywhere in the chain makes the revocation a forgery.
  Revocation forged = revoked_by(3, 6, {2});
  forged.chain.front().signature[0] ^= 1;
  forged.signature = StandInSigner(PeerId{3}, trust_secret).sign(signed_bytes(forged));
  const std::vector<Fact> facts = hear(holder, {forged});
  REQUIRE(facts.size() == 1);
  CHECK(std::get<MessageRefused>(facts[0]).reason == Reason::forged);
  CHECK_FALSE(holder.trust->is_revoked(key_of(6)));
}

TEST_CASE("a revocation counts after the certificate of its issuer has expired") {
  TrustSwarm swarm(4);
  for (std::size_t i = 1; i < 4; ++i) REQUIRE(swarm.invite(0, i));
  swarm.pass(4);
  REQUIRE(swarm.revoke(1, "peer-4").empty());
  swarm.pass(4);
  // This peer was away and returns long after the revoker has gone.
  TrustHolder late(9);
  const Time now = swarm.now + std::chrono::seconds(certificate_lifetime_s + 50'000);
  const Trust& known = *swarm.holders[2].trust;
  late.trust->restore(now, known.certificates(), known.revocations());
  REQUIRE(late.trust->accepted(key_of(2)) == nullptr);
  CHECK(late.trust->is_revoked(key_of(4)));
}

TEST_CASE("a key whose certificate is long over makes no other key that revokes") {
  TrustHolder holder(1);
  hear(holder, {signed_by(999, key_of(2), soon), signed_by(999, key_of(3), soon)});
  const Time later = Time{} + std::chrono::seconds(3 * certificate_lifetime_s);
  const std::uint64_t wall_s = began_s + 3 * certificate_lifetime_s;
  // The second key, whose certificate has expired, certifies another key of the thief.
  hear(holder, {signed_by(2, key_of(2), wall_s - 1), signed_by(2, key_of(8), wall_s - 1)}, later);
  Revocation made = revoked_by(8, 3);
  made.chain = {signed_by(999, key_of(2), soon), signed_by(2, key_of(8), wall_s - 1)};
  made.signed_s = wall_s - 2;
  made.signature = StandInSigner(PeerId{8}, trust_secret).sign(signed_bytes(made));
  hear(holder, {made}, later);
  CHECK_FALSE(holder.trust->is_revoked(key_of(3)));
}

TEST_CASE("which revocations count does not depend on their order") {
  // Random certified peers at several depths revoke each other. Every order gives the same result.
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    std::vector<std::vector<std::uint64_t>> above(9);
    for (std::uint64_t peer = 1; peer <= 8; ++peer) {
      const std::uint64_t inviter = rng.below(peer);
      if (inviter > 0 && above[inviter].size() < 2) {
        above[peer] = above[inviter];
        above[peer].push_back(inviter);
      }
    }
    std::vector<Revocation> all;
    for (std::size_t i = 0; i < 20; ++i) {
      const std::uint64_t issuer = 1 + rng.below(8), key = 1 + rng.below(8);
      if (issuer == key) continue;
      all.push_back(revoked_by(issuer, key, above[issuer], began_s + rng.below(3)));
    }
    std::optional<std::set<PeerKey>> first;
    for (int order = 0; order < 12; ++order) {
      rng.shuffle(std::span(all));
      TrustHolder holder(50);
      for (const Revocation& one : all) hear(holder, std::vector<Revocation>{one});
      std::set<PeerKey> revoked;
      for (std::uint64_t peer = 1; peer <= 8; ++peer) {
        if (holder.trust->is_revoked(key_of(peer))) revoked.insert(key_of(peer));
      }
      if (!first) first = revoked;
      INFO("seed " << seed);
      REQUIRE(revoked == *first);
    }
  }
}

TEST_CASE("two peers that revoke each other in a partition are both out in the end") {
  for (const bool have_company : {false, true}) {
    TrustSwarm swarm(have_company ? 6 : 4);
    for (std::size_t i = 1; i < swarm.holders.size(); ++i) {
      // In the swarm of four, the last peer is a member but may not sign.
      REQUIRE(swarm.invite(0, i, have_company || i < 3));
    }
    swarm.pass(4);
    swarm.away = {0};  // The peer with the swarm's key is away.
    swarm.other_side = have_company ? std::set<std::size_t>{2, 5} : std::set<std::size_t>{2};
    REQUIRE(swarm.revoke(1, "peer-3").empty());
    REQUIRE(swarm.revoke(2, "peer-2").empty());
    swarm.pass(60);
    swarm.other_side.clear();
    swarm.pass(30);
    for (std::size_t i = 3; i < swarm.holders.size(); ++i) {
      CHECK_FALSE(swarm.accepts(i, 1));
      CHECK_FALSE(swarm.accepts(i, 2));
    }
    CHECK(swarm.accepts(3, swarm.holders.size() - 1));
  }
}

TEST_CASE("three peers that revoke each other in a circle are all out") {
  TrustHolder holder(50);
  hear(holder, {revoked_by(1, 2), revoked_by(2, 3), revoked_by(3, 1)});
  for (const std::uint64_t peer : {1, 2, 3}) CHECK(holder.trust->is_revoked(key_of(peer)));
  // A revocation that no peer contests breaks the circle of mutual revocations.
  hear(holder, {revoked_by(999, 1)});
  CHECK(holder.trust->is_revoked(key_of(1)));
  CHECK_FALSE(holder.trust->is_revoked(key_of(2)));
  CHECK(holder.trust->is_revoked(key_of(3)));
}

TEST_CASE("two revoked keys that work together do not come back and the swarm's key ends it") {
  TrustHolder holder(50);
  hear(holder, {revoked_by(1, 3), revoked_by(2, 3), revoked_by(1, 4), revoked_by(2, 4)});
  hear(holder,
       {revoked_by(3, 1), revoked_by(3, 2), revoked_by(4, 1), revoked_by(4, 2), revoked_by(3, 5)});
  for (const std::uint64_t peer : {1, 2, 3, 4, 5}) CHECK(holder.trust->is_revoked(key_of(peer)));
  hear(holder, {revoked_by(999, 3), revoked_by(999, 4)});
  for (const std::uint64_t peer : {3, 4}) CHECK(holder.trust->is_revoked(key_of(peer)));
  for (const std::uint64_t peer : {1, 2, 5}) CHECK_FALSE(holder.trust->is_revoked(key_of(peer)));
}

TEST_CASE("a revocation that others have believed holds although its issuer is revoked") {
  TrustSwarm swarm(6);
  for (std::size_t i = 1; i < 6; ++i) REQUIRE(swarm.invite(0, i));
  swarm.pass(4);
  swarm.away = {0};
  REQUIRE(swarm.revoke(1, "peer-6").empty());
  swarm.pass(60);
  // The third peer revokes the issuer of the revocation that the other peers have just accepted.
  swarm.act(3, [&](Trust& trust, const View& live, Effects& out) {
    trust.receive(swarm.now, PeerId{3},
                  {.held = {}, .certificates = {}, .revocations = {revoked_by(3, 2)}}, live, out);
  });
  swarm.pass(10);
  CHECK(swarm.none_accepts(1));
  CHECK(swarm.none_accepts(5));
  for (std::size_t i = 2; i < 5; ++i) {
    CHECK(swarm.holders[i].trust->is_revoked(key_of(6)));
  }
}

TEST_CASE("a revoked peer that comes back finds no one who signs its revocations") {
  TrustSwarm swarm(5);
  for (std::size_t i = 1; i < 5; ++i) REQUIRE(swarm.invite(0, i));
  swarm.pass(4);
  swarm.away = {0, 2};  // The third peer is away while the second is revoked.
  REQUIRE(swarm.revoke(3, "peer-2").empty());
  swarm.pass(60);
  swarm.away = {0};
  // The thief shows the third peer a revocation of the fourth before the other peers can report
  // that the thief is revoked.
  swarm.act(2, [&](Trust& trust, const View& live, Effects& out) {
    trust.receive(
        swarm.now, PeerId{2},
        {.held = {}, .certificates = {}, .revocations = {revoked_by(2, 5), revoked_by(2, 4)}}, live,
        out);
  });
  swarm.pass(60);
  for (const std::size_t peer : {2, 3, 4}) {
    CHECK(swarm.none_accepts(1));
    CHECK(swarm.all_accept(peer));
  }
}

TEST_CASE(
    "what a peer has revoked before its own revocation is signed again and holds everywhere") {
  TrustSwarm swarm(5);
  for (std::size_t i = 1; i < 5; ++i) REQUIRE(swarm.invite(0, i));
  swarm.pass(4);
  swarm.other_side = {3, 4};
  REQUIRE(swarm.revoke(3, "peer-3").empty());
  REQUIRE(swarm.revoke(0, "peer-4").empty());
  swarm.pass(60);
  swarm.other_side.clear();
  swarm.pass(60);
  CHECK(swarm.none_accepts(2));
  CHECK(swarm.none_accepts(3));
}

TEST_CASE("a revocation lasts as long as the certificates that an isolated peer signs") {
  TrustSwarm swarm(3);
  for (std::size_t i = 1; i < 3; ++i) REQUIRE(swarm.invite(0, i));
  swarm.pass(4);
  REQUIRE(swarm.revoke(0, "peer-3").empty());
  const std::uint64_t until_s =
      swarm.holders[0].trust->revocations().at(0).signed_s + revocation_lifetime_s;
  swarm.pass(certificate_lifetime_s - 100'000, 50'000);
  const std::uint64_t late = swarm.holders[0].trust->wall(swarm.now) + certificate_lifetime_s;
  hear(swarm.holders[0], {signed_by(2, key_of(3), late)}, swarm.now);
  swarm.pass(400'000, 20'000);
  REQUIRE(swarm.holders[0].trust->wall(swarm.now) > until_s);
  CHECK(swarm.holders[0].trust->is_revoked(key_of(3)));
  CHECK(swarm.none_accepts(2));
}

TEST_CASE("a revocation outlives all that its key and the keys below it can have dated") {
  const bool is_below = GENERATE(false, true);
  TrustSwarm swarm(4);
  for (std::size_t i = 1; i < 4; ++i) REQUIRE(swarm.invite(0, i));
  swarm.pass(4);
  const Certificate own = *swarm.holders[0].trust->accepted(key_of(4));
  REQUIRE(swarm.revoke(0, "peer-4").empty());
  const auto wall_s = [&swarm] { return swarm.holders[0].trust->wall(swarm.now); };
  const std::uint64_t revoked_s = wall_s();
  // The revoked key revokes the third peer with the latest possible date. It does so itself or
  // through another key that it has certified.
  const std::uint64_t issuer = is_below ? 8 : 4;
  Revocation late = revoked_by(issuer, 3);
  late.chain = {own};
  if (is_below) {
    late.chain.push_back(signed_by(4, key_of(8), own.expires_s + certificate_lifetime_s));
  }
  late.signed_s = late.chain.back().expires_s;
  late.signature = StandInSigner(PeerId{issuer}, trust_secret).sign(signed_bytes(late));
  swarm.pass(late.signed_s - clock_slack_s / 2 - wall_s(), 20'000);
  hear(swarm.holders[0], {late}, swarm.now);
  const auto held = swarm.holders[0].trust->revocations();
  REQUIRE(std::ranges::find(held, late) != held.end());
  swarm.pass(400'000, 20'000);
  REQUIRE(wall_s() > revoked_s + (is_below ? 2 : 1) * certificate_lifetime_s + 2 * clock_slack_s);
  for (const std::size_t peer : {0, 1, 2}) {
    CHECK(swarm.holders[peer].trust->is_revoked(key_of(4)));
    CHECK_FALSE(swarm.holders[peer].trust->is_revoked(key_of(3)));
    CHECK(swarm.accepts(peer, 2));
  }
}

}  // namespace gv
