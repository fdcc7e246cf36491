// Certificates: which keys belong to a swarm, and how all peers come to agree on them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/consensus/trust_swarm.hpp"

namespace gv {

TEST_CASE("a peer that was invited invites the next and all peers accept both") {
  TrustSwarm swarm(4);
  REQUIRE(swarm.invite(0, 1));
  REQUIRE(swarm.invite(1, 2));
  REQUIRE(swarm.invite(2, 3));
  swarm.pass(10);
  for (std::size_t peer = 0; peer < 4; ++peer) CHECK(swarm.all_accept(peer));
  CHECK(swarm.holders[3].trust->accepted().size() == 4);
}

TEST_CASE("a clock that is wrong for a while makes a peer forget nothing") {
  TrustSwarm swarm(3);
  REQUIRE(swarm.invite(0, 1));
  REQUIRE(swarm.invite(0, 2));
  swarm.pass(10);
  REQUIRE(swarm.revoke(0, "peer-3").empty());
  swarm.pass(10);
  Trust& trust = *swarm.holders[1].trust;
  const auto certificates = trust.certificates();
  const auto revocations = trust.revocations();
  REQUIRE(revocations.size() == 1);
  const std::uint64_t right_s = trust.wall(swarm.now);
  const auto pass_with = [&](std::uint64_t wall_s, Duration time) {
    trust.set_wall(swarm.now, wall_s);
    swarm.now += time;
    Effects out;
    trust.tick(swarm.now, View({swarm.holders[1].id}), out);
  };
  pass_with(right_s + 10 * certificate_lifetime_s, std::chrono::minutes(5));
  CHECK(trust.certificates() == certificates);
  CHECK(trust.revocations() == revocations);
  pass_with(right_s, std::chrono::minutes(5));
  CHECK(swarm.accepts(1, 0));
  // A time is believed if the clock keeps showing it.
  pass_with(right_s + 10 * certificate_lifetime_s, std::chrono::hours(2));
  CHECK(trust.revocations().empty());
}

TEST_CASE("a peer without the right to invite certifies no key and is not believed if it does") {
  TrustSwarm swarm(4);
  REQUIRE(swarm.invite(0, 1, false));
  CHECK_FALSE(swarm.invite(1, 2));
  CHECK(hear(swarm.holders[0], {signed_by(2, key_of(77), soon)}).empty());
  CHECK(swarm.holders[0].trust->accepted(key_of(77)) == nullptr);
}

TEST_CASE("a chain of certificates has an end") {
  TrustSwarm swarm(7);
  // The swarm's key certifies the second peer, and each peer certifies the next one.
  for (std::size_t i = 1; i < chain_max + 1; ++i) REQUIRE(swarm.invite(i - 1, i));
  CHECK_FALSE(swarm.invite(chain_max, chain_max + 1));
  CHECK(swarm.all_accept(chain_max));
}

TEST_CASE("certificates of another swarm and forged and endless ones are refused") {
  TrustSwarm swarm(2);
  TrustHolder& first = swarm.holders[0];
  Certificate other = signed_by(999, key_of(77), soon);
  other.swarm = key_of(998);
  CHECK(hear(first, {other}).empty());
  CHECK(hear(first, {signed_by(999, key_of(77), began_s + 2 * certificate_lifetime_s)}).empty());
  Certificate forged = signed_by(1, key_of(77), soon);
  forged.signature[0] ^= 1;
  const std::vector<Fact> facts = hear(first, {forged});
  REQUIRE(facts.size() == 1);
  CHECK(std::get<MessageRefused>(facts[0]).reason == Reason::forged);
  CHECK(first.trust->accepted().size() == 1);
}

TEST_CASE("a key that differs from a known one in its sign only is refused") {
  TrustSwarm swarm(2);
  PeerKey twin = swarm.holders[0].key;
  twin.back() ^= 0x80;
  hear(swarm.holders[0], {signed_by(999, twin, soon)});
  CHECK(swarm.holders[0].trust->accepted(twin) == nullptr);
}

TEST_CASE("a peer whose certificate has expired is out and invites no one") {
  TrustSwarm swarm(3);
  REQUIRE(swarm.invite(0, 1));
  swarm.away = {1};
  swarm.pass(certificate_lifetime_s + 100'000, 50'000);
  CHECK(swarm.accepts(0, 0));
  CHECK_FALSE(swarm.accepts(0, 1));
  CHECK_FALSE(swarm.holders[1].trust->may_invite(swarm.now));
  // The peer's key may have been stolen by now.
  const std::uint64_t later = swarm.holders[0].trust->wall(swarm.now) + 1000;
  hear(swarm.holders[0], {signed_by(2, key_of(77), later), signed_by(2, key_of(2), later)},
       swarm.now);
  CHECK(swarm.holders[0].trust->accepted(key_of(77)) == nullptr);
  CHECK_FALSE(swarm.accepts(0, 1));
}

TEST_CASE("a swarm without its first peer invites and renews and revokes") {
  TrustSwarm swarm(5);
  REQUIRE(swarm.invite(0, 1));
  REQUIRE(swarm.invite(0, 2));
  swarm.pass(4);
  swarm.away = {0, 3, 4};
  swarm.pass(3 * certificate_lifetime_s, 50'000);
  CHECK(swarm.accepts(1, 2));
  CHECK(swarm.accepts(2, 1));
  CHECK_FALSE(swarm.accepts(1, 0));
  swarm.away = {0, 4};
  REQUIRE(swarm.invite(1, 3));
  swarm.pass(4);
  CHECK(swarm.all_accept(3));
  REQUIRE(swarm.revoke(2, "peer-4").empty());
  CHECK(swarm.none_accepts(3));
  // The only remaining peer also renews its own certificate.
  REQUIRE(swarm.revoke(2, "peer-2").empty());
  swarm.away = {0, 1, 3, 4};
  swarm.pass(2 * certificate_lifetime_s, 50'000);
  swarm.away = {0, 1, 3};
  CHECK(swarm.invite(2, 4));
}

TEST_CASE("what counts does not depend on the order in which it arrives") {
  const std::vector<Certificate> certificates = {
      signed_by(999, key_of(1), soon), signed_by(999, key_of(2), soon),
      signed_by(1, key_of(3), soon), signed_by(2, key_of(4), soon),
      signed_by(3, key_of(5), soon, false)};
  const std::vector<Revocation> revocations = {revoked_by(2, 3), revoked_by(1, 4)};
  std::vector<std::size_t> order = {0, 1, 2, 3, 4, 5, 6};
  Rng rng(5);
  for (int draw = 0; draw < 200; ++draw) {
    rng.shuffle(std::span(order));
    TrustHolder holder(1);
    // Sends everything repeatedly, because a certificate is not accepted before its issuer's
    // certificate.
    for (int round = 0; round < 4; ++round) {
      for (const std::size_t i : order) {
        Certificates message;
        if (i < certificates.size()) {
          message.certificates = {certificates[i]};
        } else {
          message.revocations = {revocations[i - certificates.size()]};
        }
        Effects out;
        holder.trust->receive({}, PeerId{50}, message, View{}, out);
      }
    }
    std::vector<PeerKey> accepted;
    for (const Certificate& one : holder.trust->accepted()) accepted.push_back(one.key);
    REQUIRE(accepted == std::vector<PeerKey>{key_of(1), key_of(2)});
  }
}

TEST_CASE("after a partition all peers have the certificates and revocations of both sides") {
  TrustSwarm swarm(8);
  for (std::size_t i = 1; i < 6; ++i) REQUIRE(swarm.invite(i - 1 < 2 ? i - 1 : 1, i));
  swarm.pass(4);
  swarm.other_side = {2, 3, 4, 7};
  REQUIRE(swarm.invite(0, 6));
  REQUIRE(swarm.invite(2, 7));
  REQUIRE(swarm.revoke(0, "peer-6").empty());
  REQUIRE(swarm.revoke(2, "peer-5").empty());
  swarm.pass(20);
  CHECK_FALSE(swarm.accepts(0, 7));
  CHECK(swarm.accepts(0, 4));
  swarm.other_side.clear();
  swarm.pass(30);
  CHECK(swarm.all_accept(6));
  CHECK(swarm.all_accept(7));
  CHECK(swarm.none_accepts(4));
  CHECK(swarm.none_accepts(5));
}

TEST_CASE("many certificates and revocations are everywhere soon although messages are lost") {
  constexpr std::size_t peers = 24;
  TrustSwarm swarm(peers, 0.3);
  for (std::size_t i = 1; i < peers; ++i) {
    if (!swarm.invite(i < 4 ? 0 : i % 4, i)) REQUIRE(swarm.invite(0, i));
  }
  for (std::size_t i = 0; i < 120; ++i) {
    swarm.act(i % 4, [&](Trust& trust, const View& live, Effects& out) {
      trust.certify(swarm.now, key_of(10'000 + i), "guest", false, live, out);
    });
  }
  for (std::size_t i = 0; i < 6; ++i) {
    (void)swarm.revoke(1, "peer-" + std::to_string(peers - i));
  }
  swarm.pass(30);
  for (std::size_t i = peers - 6; i < peers; ++i) CHECK(swarm.none_accepts(i));
  std::set<std::size_t> sizes;
  for (std::size_t i = 0; i < peers - 6; ++i) {
    sizes.insert(swarm.holders[i].trust->accepted().size());
  }
  CHECK(sizes.size() == 1);
  CHECK(*sizes.begin() > 100);
  // When there is nothing new, each peer sends one short message every two seconds.
  const std::size_t before = swarm.messages;
  swarm.pass(20);
  CHECK(swarm.messages - before <= 10 * peers * 2);
}

TEST_CASE("what is kept on the disk is what counts after a restart") {
  TrustSwarm swarm(4);
  REQUIRE(swarm.invite(0, 1));
  REQUIRE(swarm.invite(1, 2));
  REQUIRE(swarm.invite(0, 3));
  REQUIRE(swarm.revoke(0, "peer-4").empty());
  const Trust& before = *swarm.holders[2].trust;
  TrustHolder again(3);
  std::vector<Certificate> kept = before.certificates();
  std::ranges::reverse(kept);
  again.trust->restore(swarm.now, kept, before.revocations());
  CHECK(again.trust->accepted() == before.accepted());
  CHECK(again.trust->is_revoked(key_of(4)));
}

TEST_CASE("peers get names and shards of their own") {
  TrustSwarm swarm(2);
  Effects out;
  Trust& first = *swarm.holders[0].trust;
  const auto one = first.certify(swarm.now, key_of(20), "laptop", false, View{}, out);
  const auto two = first.certify(swarm.now, key_of(21), "laptop", false, View{}, out);
  const auto same = first.certify(swarm.now, key_of(20), "laptop", false, View{}, out);
  REQUIRE((one && two && same));
  CHECK(one->name == "laptop");
  CHECK(two->name == "laptop-2");
  CHECK(same->name == "laptop");
  CHECK(one->number == 1);
  CHECK(two->number == 2);
  CHECK(same->number == 1);
  CHECK_FALSE(first.certify(swarm.now, key_of(22), "no name", false, View{}, out));
}

TEST_CASE("a full table refuses more keys and goes on") {
  TrustSwarm swarm(2);
  Effects out;
  Trust& first = *swarm.holders[0].trust;
  std::vector<Certificate> many;
  for (std::uint64_t i = 0; i < certified_max + 10; ++i) {
    many.push_back(signed_by(999, key_of(100'000 + i), soon));
  }
  first.receive(swarm.now, PeerId{50}, {.held = {}, .certificates = many, .revocations = {}},
                View{}, out);
  CHECK(first.accepted().size() == certified_max);
  CHECK_FALSE(first.certify(swarm.now, key_of(30), "late", false, View{}, out));
}

TEST_CASE("a longer certificate of a revoked peer hides no valid one and loses to a new one") {
  TrustSwarm swarm(4);
  REQUIRE(swarm.invite(0, 1));
  REQUIRE(swarm.invite(0, 2));
  // The second peer's clock is ahead. The third peer has certificates from the second and from the
  // first.
  const std::uint64_t ahead = began_s + certificate_lifetime_s + 10'000;
  hear(swarm.holders[0], {signed_by(2, key_of(3), ahead), signed_by(2, key_of(4), ahead)});
  REQUIRE(swarm.holders[0].trust->accepted(key_of(3))->expires_s == ahead);
  REQUIRE(swarm.revoke(0, "peer-2").empty());
  REQUIRE(swarm.accepts(0, 2));
  CHECK(swarm.holders[0].trust->accepted(key_of(3))->issuer == swarm_key);
  // The fourth peer had only a certificate from the second.
  REQUIRE(swarm.accepts(0, 3));
  CHECK(swarm.holders[0].trust->accepted(key_of(4))->issuer == swarm_key);
  swarm.away = {1};
  swarm.pass(2 * certificate_lifetime_s, 50'000);
  CHECK(swarm.accepts(0, 2));
}

TEST_CASE("what came before a forged item counts") {
  TrustHolder holder(1);
  Certificate forged = signed_by(999, key_of(3), soon);
  forged.signature[0] ^= 1;
  const std::uint64_t before = holder.trust->changes();
  CHECK(hear(holder, {signed_by(999, key_of(2), soon), forged}).size() == 1);
  CHECK(holder.trust->accepted(key_of(2)) != nullptr);
  CHECK(holder.trust->changes() > before);
}

TEST_CASE("short messages with ever new digests get everything once a second") {
  TrustSwarm swarm(2);
  std::size_t answers = 0;
  for (std::uint8_t i = 1; i <= 100; ++i) {
    Digest other{};
    other[0] = i;
    Effects out;
    swarm.holders[0].trust->receive(std::chrono::milliseconds(20 * i) + Time{}, PeerId{2},
                                    {.held = other, .certificates = {}, .revocations = {}},
                                    View({PeerId{2}}), out);
    answers += out.messages.size();
  }
  CHECK(answers == 2);
}

TEST_CASE("a full table gives the places of keys that are out to new ones") {
  TrustSwarm swarm(2);
  REQUIRE(swarm.invite(0, 1));
  std::vector<Certificate> many;
  for (std::uint64_t i = 0; i < certified_max; ++i) {
    many.push_back(signed_by(2, key_of(100'000 + i), soon));
  }
  hear(swarm.holders[0], many);
  Effects out;
  Trust& first = *swarm.holders[0].trust;
  REQUIRE_FALSE(first.certify(swarm.now, key_of(30), "late", false, View{}, out));
  REQUIRE(swarm.revoke(0, "peer-2", true).empty());
  CHECK(first.certify(swarm.now, key_of(30), "late", false, View{}, out));
  CHECK(first.accepted().size() == 2);
}

TEST_CASE("new certificates of one key are taken at a limited rate, and all take the last") {
  TrustSwarm swarm(3);
  REQUIRE(swarm.invite(0, 1));
  REQUIRE(swarm.invite(0, 2, false));
  Effects out;
  Certificate last;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    last = signed_by(2, key_of(3), began_s + certificate_lifetime_s + 1 + i, false);
    swarm.holders[0].trust->receive(swarm.now, PeerId{2},
                                    {.held = {}, .certificates = {last}, .revocations = {}},
                                    View({PeerId{2}, PeerId{3}}), out);
  }
  // Each accepted certificate is passed on to one other peer.
  const auto passed_on = std::ranges::count_if(out.messages, [](const Outgoing& message) {
    const auto* certificates = std::get_if<Certificates>(&message.message);
    return message.to == PeerId{3} && certificates != nullptr &&
           !certificates->certificates.empty();
  });
  CHECK(passed_on == replacements);
  swarm.now += replacing_every;
  hear(swarm.holders[0], {last}, swarm.now);
  CHECK(*swarm.holders[0].trust->accepted(key_of(3)) == last);
}

TEST_CASE("of peers with one name the one that is meant is revoked by its id") {
  TrustSwarm swarm(3);
  REQUIRE(swarm.invite(0, 1));
  REQUIRE(swarm.invite(0, 2, false));
  Certificate namesake = signed_by(2, key_of(20), soon);
  namesake.name = "peer-3";
  namesake.signature = StandInSigner(PeerId{2}, trust_secret).sign(signed_bytes(namesake));
  hear(swarm.holders[0], {namesake});
  const Problems problems = swarm.revoke(0, "peer-3");
  REQUIRE(problems.size() == 1);
  const std::string id = to_string(PeerId{20});
  CHECK(problems.front().remedy.find(id) != std::string::npos);
  CHECK(problems.front().remedy.find(to_string(PeerId{3})) != std::string::npos);
  CHECK(swarm.accepts(0, 2));
  CHECK(swarm.revoke(0, id).empty());
  CHECK(swarm.holders[0].trust->accepted(key_of(20)) == nullptr);
  CHECK(swarm.revoke(0, "peer-3").empty());
  CHECK_FALSE(swarm.accepts(0, 2));
}

TEST_CASE("a peer that wakes up to the loss of its place waits for another certificate") {
  TrustSwarm swarm(3);
  REQUIRE(swarm.invite(0, 1));
  REQUIRE(swarm.invite(1, 2));
  swarm.pass(4);
  swarm.away.insert(2);
  swarm.pass(60);
  REQUIRE(swarm.revoke(0, "peer-2").empty());
  Trust& woken = *swarm.holders[2].trust;
  Effects out;
  woken.receive(
      swarm.now, PeerId{1},
      {.held = {}, .certificates = {}, .revocations = swarm.holders[0].trust->revocations()},
      View({PeerId{1}}), out);
  CHECK(woken.accepted(key_of(3)) == nullptr);
  CHECK_FALSE(woken.must_leave(swarm.now));
  CHECK(woken.must_leave(swarm.now + patience_of_the_uncertified));
}

TEST_CASE("the end of a void revocation removes no peer") {
  TrustHolder holder(1, true);
  Effects out;
  holder.trust->certify({}, holder.key, "peer-1", true, View({holder.id}), out);
  hear(holder, {signed_by(999, key_of(2), soon), signed_by(999, key_of(3), soon)});
  hear(holder, {revoked_by(999, 2, {}, began_s)});
  REQUIRE(holder.trust->is_revoked(key_of(2)));
  // A revoked key revokes two others, and dates its revocations so that they end in ten seconds.
  for (const std::uint64_t victim : {1, 3}) {
    hear(holder, {revoked_by(2, victim, {}, began_s - revocation_lifetime_s + 10)});
    REQUIRE_FALSE(holder.trust->is_revoked(key_of(victim)));
  }
  for (int second = 2; second < 40; second += 2) {
    holder.trust->tick(Time(std::chrono::seconds(second)), View({holder.id}), out);
  }
  CHECK(holder.trust->accepted(key_of(1)) != nullptr);
  CHECK(holder.trust->accepted(key_of(3)) != nullptr);
  CHECK_FALSE(holder.trust->must_leave(Time(std::chrono::seconds(38))));
}

}  // namespace gv
