// A swarm that only exchanges certificates, for tests: peers with links, a clock, and messages that
// may be lost.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "consensus/trust/trust.hpp"
#include "sim/virtual/stand_in_signer.hpp"

namespace gv {

inline constexpr std::uint64_t trust_secret = 7;
inline constexpr std::uint64_t began_s = 1'700'000'000;

inline PeerKey key_of(std::uint64_t number) {
  PeerKey key{};
  for (std::size_t i = 0; i < 8; ++i) key[i] = static_cast<std::uint8_t>(number >> (8 * i) & 0xff);
  return key;
}

inline const PeerKey swarm_key = key_of(999);

/// Signs as StandInSigner does, and counts the signatures that it checks.
class CountingSigner final : public Signer {
 public:
  CountingSigner(PeerId self, std::uint64_t secret) : signer_(self, secret) {}

  Signature sign(std::span<const std::byte> bytes) const override { return signer_.sign(bytes); }
  bool verify(PeerId signer, std::span<const std::byte> bytes,
              const Signature& signature) const override {
    ++checked;
    return signer_.verify(signer, bytes, signature);
  }
  bool verify_key(const PeerKey& key, std::span<const std::byte> bytes,
                  const Signature& signature) const override {
    return verify(id_of(key), bytes, signature);
  }
  PeerId id_of(const PeerKey& key) const override { return signer_.id_of(key); }
  Digest digest(std::span<const std::byte> bytes) const override { return signer_.digest(bytes); }

  mutable std::size_t checked = 0;

 private:
  StandInSigner signer_;
};

/// One peer with its certificates.
struct TrustHolder {
  explicit TrustHolder(std::uint64_t number, bool has_swarm_key = false)
      : id(PeerId{number}), key(key_of(number)) {
    signer = std::make_unique<CountingSigner>(id, trust_secret);
    swarm_signer = std::make_unique<StandInSigner>(PeerId{999}, trust_secret);
    trust = std::make_unique<Trust>(
        Trust::Options{.swarm = swarm_key,
                       .self = key,
                       .wall_s = began_s,
                       .swarm_signer = has_swarm_key ? swarm_signer.get() : nullptr},
        *signer, Rng(number));
  }

  PeerId id;
  PeerKey key;
  std::unique_ptr<CountingSigner> signer;
  std::unique_ptr<StandInSigner> swarm_signer;
  std::unique_ptr<Trust> trust;
};

/// Peers with links between some of them, a clock, and messages that may be lost.
class TrustSwarm {
 public:
  /// The first peer has the swarm's key and certifies itself.
  explicit TrustSwarm(std::size_t peers, double loss = 0) : loss_(loss) {
    for (std::size_t i = 1; i <= peers; ++i) holders.emplace_back(i, i == 1);
    act(0, [&](Trust& trust, const View& live, Effects& out) {
      trust.certify(now, holders[0].key, "peer-1", true, live, out);
    });
  }

  /// Lets a peer do something, then delivers all messages that result.
  template <class Use>
  void act(std::size_t peer, Use use) {
    Effects out;
    use(*holders[peer].trust, live(peer), out);
    deliver(peer, out);
  }

  /// One peer invites another, which starts with all that the inviter knows. Returns true on
  /// success.
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

  /// Lets time pass. Every peer that is not away ticks after each `step` seconds.
  void pass(std::uint64_t seconds, std::uint64_t step = 2) {
    for (std::uint64_t t = 0; t < seconds; t += step) {
      now += std::chrono::seconds(step);
      for (std::size_t i = 0; i < holders.size(); ++i) {
        if (away.contains(i)) continue;
        act(i, [&](Trust& trust, const View& live, Effects& out) { trust.tick(now, live, out); });
      }
    }
  }

  /// The peers to which this one has a link: those on its side of a partition that are not away.
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

  std::vector<TrustHolder> holders;
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

inline Certificate signed_by(std::uint64_t issuer, const PeerKey& key, std::uint64_t expires_s,
                             bool may_invite = true) {
  Certificate made{.swarm = swarm_key,
                   .issuer = key_of(issuer),
                   .key = key,
                   .name = "drawn",
                   .may_invite = may_invite,
                   .expires_s = expires_s};
  made.signature = StandInSigner(PeerId{issuer}, trust_secret).sign(signed_bytes(made));
  return made;
}

/// A revocation by the swarm's key, or by a key that it has certified directly or through the keys
/// in `above`.
inline Revocation revoked_by(std::uint64_t issuer, std::uint64_t key,
                             const std::vector<std::uint64_t>& above = {},
                             std::uint64_t signed_s = began_s) {
  Revocation made{
      .swarm = swarm_key, .issuer = key_of(issuer), .key = key_of(key), .signed_s = signed_s};
  std::uint64_t last = 999;
  std::vector<std::uint64_t> links = above;
  if (issuer != 999) links.push_back(issuer);
  for (const std::uint64_t link : links) {
    made.chain.push_back(signed_by(last, key_of(link), signed_s + 1000));
    last = link;
  }
  made.signature = StandInSigner(PeerId{issuer}, trust_secret).sign(signed_bytes(made));
  return made;
}

/// Gives a peer certificates that another peer sends. Returns the facts that the peer reports.
inline std::vector<Fact> hear(TrustHolder& holder, std::vector<Certificate> certificates,
                              Time now = {}) {
  Effects out;
  holder.trust->receive(now, PeerId{50},
                        {.held = {}, .certificates = std::move(certificates), .revocations = {}},
                        View({PeerId{50}}), out);
  return out.facts;
}

/// Gives a peer revocations that another peer sends. Returns the facts that the peer reports.
inline std::vector<Fact> hear(TrustHolder& holder, std::vector<Revocation> revocations,
                              Time now = {}) {
  Effects out;
  holder.trust->receive(now, PeerId{50},
                        {.held = {}, .certificates = {}, .revocations = std::move(revocations)},
                        View({PeerId{50}}), out);
  return out.facts;
}

inline constexpr std::uint64_t soon = began_s + 1000;

}  // namespace gv
