// Certificates and revocations: which keys belong to a swarm, and how all peers come to agree.
#include "consensus/trust/trust.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/virtual/stand_in_signer.hpp"

namespace gv {
namespace {

constexpr std::uint64_t secret = 7;
constexpr std::uint64_t began_s = 1'700'000'000;

PeerKey key_of(std::uint64_t number) {
  PeerKey key{};
  for (std::size_t i = 0; i < 8; ++i) key[i] = static_cast<std::uint8_t>(number >> (8 * i) & 0xff);
  return key;
}

const PeerKey swarm_key = key_of(999);

/// One peer with its certificates.
struct Holder {
  explicit Holder(std::uint64_t number, bool has_swarm_key = false)
      : id(PeerId{number}), key(key_of(number)) {
    signer = std::make_unique<StandInSigner>(id, secret);
    swarm_signer = std::make_unique<StandInSigner>(PeerId{999}, secret);
    trust = std::make_unique<Trust>(
        Trust::Options{.swarm = swarm_key,
                       .self = key,
                       .wall_s = began_s,
                       .swarm_signer = has_swarm_key ? swarm_signer.get() : nullptr},
        *signer, Rng(number));
  }

  PeerId id;
  PeerKey key;
  std::unique_ptr<StandInSigner> signer, swarm_signer;
  std::unique_ptr<Trust> trust;
};

/// Peers with links between some, a clock, and messages that may be lost.
class Swarm {
 public:
  /// The first peer has the swarm's key and certifies itself.
  explicit Swarm(std::size_t peers, double loss = 0) : loss_(loss) {
    for (std::size_t i = 1; i <= peers; ++i) holders.emplace_back(i, i == 1);
    act(0, [&](Trust& trust, const View& live, Effects& out) {
      trust.certify(now, holders[0].key, "peer-1", true, live, out);
    });
  }

  /// Lets a peer do something, and delivers what it and all others send for that.
  template <class Use>
  void act(std::size_t peer, Use use) {
    Effects out;
    use(*holders[peer].trust, live(peer), out);
    deliver(peer, out);
  }

  /// One peer invites another, which begins with what the first one knows.
  bool invite(std::size_t inviter, std::size_t peer, bool may_invite = true) {
    bool done = false;
    act(inviter, [&](Trust& trust, const View& live, Effects& out) {
      const auto made = trust.certify(now, holders[peer].key, "peer-" + std::to_string(peer + 1),
                                      may_invite, live, out);
      done = made.has_value();
    });
    const Trust& known = *holders[inviter].trust;
    if (done) holders[peer].trust->restore(now, known.certificates(), known.revocations());
    return done;
  }

  Problems revoke(std::size_t by, const std::string& name, bool with_invited = false) {
    Problems problems;
    act(by, [&](Trust& trust, const View& live, Effects& out) {
      problems = trust.revoke(now, name, with_invited, live, out);
    });
    return problems;
  }

  /// Seconds pass; every peer acts when it is due.
  void pass(std::uint64_t seconds, std::uint64_t step = 2) {
    for (std::uint64_t t = 0; t < seconds; t += step) {
      now += std::chrono::seconds(step);
      for (std::size_t i = 0; i < holders.size(); ++i) {
        if (away.contains(i)) continue;
        act(i, [&](Trust& trust, const View& live, Effects& out) { trust.tick(now, live, out); });
      }
    }
  }

  /// The peers that this one has a link with: those of its side that are not away.
  View live(std::size_t peer) const {
    std::vector<PeerId> peers;
    for (std::size_t i = 0; i < holders.size(); ++i) {
      if (!away.contains(i) && other_side.contains(i) == other_side.contains(peer)) {
        peers.push_back(holders[i].id);
      }
    }
    return View(peers);
  }

  bool accepts(std::size_t peer, std::size_t other) const {
    return holders[peer].trust->accepted(holders[other].key) != nullptr;
  }
  bool all_accept(std::size_t other) const {
    for (std::size_t i = 0; i < holders.size(); ++i) {
      if (!away.contains(i) && i != other && !accepts(i, other)) return false;
    }
    return true;
  }
  bool none_accepts(std::size_t other) const {
    for (std::size_t i = 0; i < holders.size(); ++i) {
      if (!away.contains(i) && i != other && accepts(i, other)) return false;
    }
    return true;
  }

  std::vector<Holder> holders;
  std::set<std::size_t> away, other_side;
  Time now{};
  std::size_t messages = 0;

 private:
  void deliver(std::size_t from, const Effects& effects) {
    std::vector<std::pair<std::size_t, Outgoing>> waiting;
    for (const Outgoing& message : effects.messages) waiting.emplace_back(from, message);
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      REQUIRE(waiting.size() < 100'000);
      const auto [sender, outgoing] = waiting[i];
      const auto to = static_cast<std::size_t>(outgoing.to) - 1;
      ++messages;
      if (!live(sender).contains(outgoing.to) || rng_.chance(loss_)) continue;
      REQUIRE(std::get<Certificates>(outgoing.message).problem().empty());
      Effects answer;
      holders[to].trust->receive(now, holders[sender].id, std::get<Certificates>(outgoing.message),
                                 live(to), answer);
      for (const Fact& fact : answer.facts) {
        REQUIRE(std::holds_alternative<CertificateRevoked>(fact));
      }
      for (const Outgoing& more : answer.messages) waiting.emplace_back(to, more);
    }
  }

  double loss_;
  Rng rng_{1};
};

Certificate signed_by(std::uint64_t issuer, const PeerKey& key, std::uint64_t expires_s,
                      bool may_invite = true) {
  Certificate made{.swarm = swarm_key,
                   .issuer = key_of(issuer),
                   .key = key,
                   .name = "drawn",
                   .may_invite = may_invite,
                   .expires_s = expires_s};
  made.signature = StandInSigner(PeerId{issuer}, secret).sign(signed_bytes(made));
  return made;
}

Revocation revoked_by(std::uint64_t issuer, std::uint64_t key,
                      std::uint64_t until_s = began_s + certificate_lifetime_s) {
  Revocation made{
      .swarm = swarm_key, .issuer = key_of(issuer), .key = key_of(key), .until_s = until_s};
  made.signature = StandInSigner(PeerId{issuer}, secret).sign(signed_bytes(made));
  return made;
}

/// Gives a peer certificates that another sends. Returns the reasons for its refusals.
std::vector<Fact> hear(Holder& holder, std::vector<Certificate> certificates, Time now = {}) {
  Effects out;
  holder.trust->receive(now, PeerId{50},
                        {.held = {}, .certificates = std::move(certificates), .revocations = {}},
                        View({PeerId{50}}), out);
  return out.facts;
}

/// The same with revocations.
std::vector<Fact> hear(Holder& holder, std::vector<Revocation> revocations, Time now = {}) {
  Effects out;
  holder.trust->receive(now, PeerId{50},
                        {.held = {}, .certificates = {}, .revocations = std::move(revocations)},
                        View({PeerId{50}}), out);
  return out.facts;
}

constexpr std::uint64_t soon = began_s + 1000;

}  // namespace

TEST_CASE("a peer that was invited invites the next and all peers accept both") {
  Swarm swarm(4);
  REQUIRE(swarm.invite(0, 1));
  REQUIRE(swarm.invite(1, 2));
  REQUIRE(swarm.invite(2, 3));
  swarm.pass(10);
  for (std::size_t peer = 0; peer < 4; ++peer) CHECK(swarm.all_accept(peer));
  CHECK(swarm.holders[3].trust->accepted().size() == 4);
}

TEST_CASE("a peer without the right to invite certifies no key and is not believed if it does") {
  Swarm swarm(4);
  REQUIRE(swarm.invite(0, 1, false));
  CHECK_FALSE(swarm.invite(1, 2));
  CHECK(hear(swarm.holders[0], {signed_by(2, key_of(77), soon)}).empty());
  CHECK(swarm.holders[0].trust->accepted(key_of(77)) == nullptr);
}

TEST_CASE("a chain of certificates has an end") {
  Swarm swarm(7);
  // The swarm's key certifies the second peer, and from there on each the next.
  for (std::size_t i = 1; i < chain_max + 1; ++i) REQUIRE(swarm.invite(i - 1, i));
  CHECK_FALSE(swarm.invite(chain_max, chain_max + 1));
  CHECK(swarm.all_accept(chain_max));
}

TEST_CASE("certificates of another swarm and forged and endless ones are refused") {
  Swarm swarm(2);
  Holder& first = swarm.holders[0];
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
  Swarm swarm(2);
  PeerKey twin = swarm.holders[0].key;
  twin.back() ^= 0x80;
  hear(swarm.holders[0], {signed_by(999, twin, soon)});
  CHECK(swarm.holders[0].trust->accepted(twin) == nullptr);
}

TEST_CASE("a peer whose certificate has expired is out and invites no one") {
  Swarm swarm(3);
  REQUIRE(swarm.invite(0, 1));
  swarm.away = {1};
  swarm.pass(certificate_lifetime_s + 100'000, 50'000);
  CHECK(swarm.accepts(0, 0));
  CHECK_FALSE(swarm.accepts(0, 1));
  CHECK_FALSE(swarm.holders[1].trust->may_invite(swarm.now));
  // Its key may be stolen by now.
  const std::uint64_t later = swarm.holders[0].trust->wall(swarm.now) + 1000;
  hear(swarm.holders[0], {signed_by(2, key_of(77), later), signed_by(2, key_of(2), later)},
       swarm.now);
  CHECK(swarm.holders[0].trust->accepted(key_of(77)) == nullptr);
  CHECK_FALSE(swarm.accepts(0, 1));
}

TEST_CASE("a swarm without its first peer invites and renews and revokes") {
  Swarm swarm(5);
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
  // The only one that is left renews itself too.
  REQUIRE(swarm.revoke(2, "peer-2").empty());
  swarm.away = {0, 1, 3, 4};
  swarm.pass(2 * certificate_lifetime_s, 50'000);
  swarm.away = {0, 1, 3};
  CHECK(swarm.invite(2, 4));
}

TEST_CASE("a revocation reaches all peers and a revoked key stays out") {
  Swarm swarm(4);
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
    Swarm swarm(4);
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
  Swarm swarm(3);
  REQUIRE(swarm.invite(0, 1));
  REQUIRE(swarm.invite(1, 2));
  swarm.pass(4);
  const Problems problems = swarm.revoke(2, "peer-2");
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].reason.find("right to invite comes from it") != std::string::npos);
  // If it is made all the same, such a revocation does not count.
  Effects out;
  swarm.holders[0].trust->receive(
      swarm.now, PeerId{3}, {.held = {}, .certificates = {}, .revocations = {revoked_by(3, 2)}},
      View{}, out);
  CHECK(swarm.accepts(0, 1));
  CHECK_FALSE(swarm.revoke(0, "no-such-peer").empty());
  CHECK_FALSE(swarm.revoke(0, "peer-1").empty());
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
    Holder holder(1);
    // Twice, because a certificate is not taken before that of its issuer.
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
  Swarm swarm(8);
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
  Swarm swarm(peers, 0.3);
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
  // When nothing is new, each peer sends one short message every two seconds.
  const std::size_t before = swarm.messages;
  swarm.pass(20);
  CHECK(swarm.messages - before <= 10 * peers * 2);
}

TEST_CASE("what is kept on the disk is what counts after a restart") {
  Swarm swarm(4);
  REQUIRE(swarm.invite(0, 1));
  REQUIRE(swarm.invite(1, 2));
  REQUIRE(swarm.invite(0, 3));
  REQUIRE(swarm.revoke(0, "peer-4").empty());
  const Trust& before = *swarm.holders[2].trust;
  Holder again(3);
  std::vector<Certificate> kept = before.certificates();
  std::ranges::reverse(kept);
  again.trust->restore(swarm.now, kept, before.revocations());
  CHECK(again.trust->accepted() == before.accepted());
  CHECK(again.trust->is_revoked(key_of(4)));
}

TEST_CASE("peers get names and shards of their own") {
  Swarm swarm(2);
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
  Swarm swarm(2);
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

TEST_CASE("a revoked peer does not bring itself back by what it signs for its revoker") {
  Holder holder(1);
  // The third peer is nearer to the swarm's key than the fourth, by which the fifth may invite.
  hear(holder, {signed_by(999, key_of(2), soon), signed_by(2, key_of(4), soon),
                signed_by(4, key_of(5), soon), signed_by(999, key_of(3), soon)});
  hear(holder, {revoked_by(5, 3)});
  REQUIRE(holder.trust->is_revoked(key_of(3)));
  hear(holder, {signed_by(3, key_of(5), soon + 10), signed_by(3, key_of(77), soon)});
  CHECK(holder.trust->is_revoked(key_of(3)));
  CHECK(holder.trust->accepted(key_of(77)) == nullptr);
  CHECK(holder.trust->accepted(key_of(5))->issuer == key_of(4));
  // Nor does it when the issuer of the revocation has to go, or after a restart.
  hear(holder, {revoked_by(2, 4)});
  CHECK(holder.trust->is_revoked(key_of(3)));
  Holder again(1);
  again.trust->restore({}, holder.trust->certificates(), holder.trust->revocations());
  CHECK(again.trust->is_revoked(key_of(3)));
  CHECK(again.trust->accepted() == holder.trust->accepted());
}

TEST_CASE("revocations of unknown keys take no place from those of known ones") {
  Swarm swarm(3);
  for (std::size_t i = 1; i < 3; ++i) REQUIRE(swarm.invite(0, i));
  std::vector<Revocation> junk;
  for (std::uint64_t i = 0; i < certified_max + 5; ++i) junk.push_back(revoked_by(2, 100'000 + i));
  hear(swarm.holders[0], junk);
  CHECK(swarm.holders[0].trust->revocations().size() == certified_max);
  CHECK(swarm.revoke(0, "peer-2").empty());
  CHECK(swarm.holders[0].trust->is_revoked(key_of(2)));
  CHECK_FALSE(swarm.accepts(0, 1));
}

TEST_CASE("a longer certificate of a revoked peer hides no valid one and loses to a new one") {
  Swarm swarm(4);
  REQUIRE(swarm.invite(0, 1));
  REQUIRE(swarm.invite(0, 2));
  // The second peer's clock is ahead. The third peer has a certificate of both it and the first.
  const std::uint64_t ahead = began_s + certificate_lifetime_s + 10'000;
  hear(swarm.holders[0], {signed_by(2, key_of(3), ahead), signed_by(2, key_of(4), ahead)});
  REQUIRE(swarm.holders[0].trust->accepted(key_of(3))->expires_s == ahead);
  REQUIRE(swarm.revoke(0, "peer-2").empty());
  REQUIRE(swarm.accepts(0, 2));
  CHECK(swarm.holders[0].trust->accepted(key_of(3))->issuer == swarm_key);
  // The fourth peer had only that of the second.
  REQUIRE(swarm.accepts(0, 3));
  CHECK(swarm.holders[0].trust->accepted(key_of(4))->issuer == swarm_key);
  swarm.away = {1};
  swarm.pass(2 * certificate_lifetime_s, 50'000);
  CHECK(swarm.accepts(0, 2));
}

TEST_CASE("a key that has been revoked or was over when it can have signed revokes no one") {
  Holder holder(1);
  hear(holder, {signed_by(999, key_of(2), soon), signed_by(999, key_of(3), soon),
                signed_by(999, key_of(4), soon)});
  hear(holder, {revoked_by(2, 4, soon + certificate_lifetime_s + 2 * 24 * 3600 + 1)});
  CHECK_FALSE(holder.trust->is_revoked(key_of(4)));
  hear(holder, {revoked_by(3, 2)});
  REQUIRE(holder.trust->is_revoked(key_of(2)));
  hear(holder, {revoked_by(2, 3), revoked_by(2, 4)});
  CHECK_FALSE(holder.trust->is_revoked(key_of(3)));
  CHECK_FALSE(holder.trust->is_revoked(key_of(4)));
}

TEST_CASE(
    "what a peer has revoked before its own revocation is signed again and holds everywhere") {
  Swarm swarm(5);
  for (std::size_t i = 1; i < 5; ++i) REQUIRE(swarm.invite(0, i));
  swarm.pass(4);
  swarm.other_side = {3, 4};
  REQUIRE(swarm.revoke(3, "peer-3").empty());
  REQUIRE(swarm.revoke(0, "peer-4").empty());
  swarm.pass(10);
  swarm.other_side.clear();
  swarm.pass(60);
  CHECK(swarm.none_accepts(2));
  CHECK(swarm.none_accepts(3));
}

TEST_CASE("what came before a forged item counts") {
  Holder holder(1);
  Certificate forged = signed_by(999, key_of(3), soon);
  forged.signature[0] ^= 1;
  const std::uint64_t before = holder.trust->changes();
  CHECK(hear(holder, {signed_by(999, key_of(2), soon), forged}).size() == 1);
  CHECK(holder.trust->accepted(key_of(2)) != nullptr);
  CHECK(holder.trust->changes() > before);
}

TEST_CASE("short messages with ever new digests get everything once a second") {
  Swarm swarm(2);
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
  Swarm swarm(2);
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

TEST_CASE("a revocation lasts as long as the certificates that an isolated peer signs") {
  Swarm swarm(3);
  for (std::size_t i = 1; i < 3; ++i) REQUIRE(swarm.invite(0, i));
  swarm.pass(4);
  REQUIRE(swarm.revoke(0, "peer-3").empty());
  const std::uint64_t until_s = swarm.holders[0].trust->revocations().at(0).until_s;
  swarm.pass(certificate_lifetime_s - 100'000, 50'000);
  const std::uint64_t late = swarm.holders[0].trust->wall(swarm.now) + certificate_lifetime_s;
  hear(swarm.holders[0], {signed_by(2, key_of(3), late)}, swarm.now);
  swarm.pass(400'000, 20'000);
  REQUIRE(swarm.holders[0].trust->wall(swarm.now) > until_s);
  CHECK(swarm.holders[0].trust->is_revoked(key_of(3)));
  CHECK(swarm.none_accepts(2));
}

}  // namespace gv
