// Signs items in a peer's own name: certificates of guests, renewals, and revocations.
#include <algorithm>
#include <set>
#include <utility>

#include "consensus/trust/trust.hpp"

namespace gv {
namespace {

/// How long a peer believes a revocation before it signs one too. This gives a peer that has just
/// come back time to learn whether the issuer has itself been revoked.
constexpr Duration signed_again_after = std::chrono::seconds(10);

/// Peers sign a revocation until it has this many issuers, or the swarm's key has signed it.
constexpr std::size_t issuers_wanted = 2;

/// A key can date its revocations up to this long after the expiry of its own certificate, by
/// signing a chain of certificates for itself and for keys below it. Each certificate of the chain
/// may end a lifetime after the previous one.
constexpr std::uint64_t dated_after_expiry_s =
    (chain_max - 1) * (certificate_lifetime_s + clock_slack_s);

}  // namespace

bool Trust::may_invite(Time now) const {
  return options_.swarm_signer != nullptr ||
         (accepted(options_.self) != nullptr && is_current(options_.self, wall(now)) &&
          is_entitled(options_.self, chain_max - 1));
}

/// The smallest number that no other peer of the swarm has. Two peers that invite at the same
/// moment may give out the same number, and then two guests train on the same shard.
std::uint32_t Trust::free_number(const PeerKey& key) const {
  if (const Certificate* own = accepted(key)) return own->number;
  std::set<std::uint32_t> taken;
  for (const Certificate& certificate : accepted_) taken.insert(certificate.number);
  std::uint32_t number = 0;
  while (taken.contains(number)) ++number;
  return number;
}

std::string Trust::free_name(const std::string& wanted, const PeerKey& key) const {
  const auto is_taken = [&](const std::string& name) {
    return std::ranges::any_of(accepted_, [&](const Certificate& certificate) {
      return certificate.name == name && certificate.key != key;
    });
  };
  std::string name = wanted;
  for (std::size_t i = 2; is_taken(name); ++i) {
    const std::string end = "-" + std::to_string(i);
    name = wanted.substr(0, 64 - end.size()) + end;
  }
  return name;
}

Certificate Trust::signed_certificate(Time now, Certificate certificate) const {
  const Signer& signer = options_.swarm_signer != nullptr ? *options_.swarm_signer : *signer_;
  certificate.swarm = options_.swarm;
  certificate.issuer = signing_key();
  certificate.expires_s = wall(now) + certificate_lifetime_s;
  certificate.signature = signer.sign(signed_bytes(certificate));
  return certificate;
}

const PeerKey& Trust::signing_key() const {
  return options_.swarm_signer != nullptr ? options_.swarm : options_.self;
}

std::vector<Certificate> Trust::right_of(const PeerKey& key, std::size_t left,
                                         const PeerKey& without) const {
  const auto found = entries_.find(key);
  if (key == options_.swarm || left == 0 || found == entries_.end()) return {};
  for (const auto* one : {&found->second.right, &found->second.newest}) {
    const bool helps = *one && (*one)->may_invite && (*one)->issuer != key &&
                       is_entitled((*one)->issuer, left - 1, without);
    if (!helps) continue;
    std::vector<Certificate> chain = right_of((*one)->issuer, left - 1, without);
    chain.push_back(**one);
    return chain;
  }
  return {};
}

std::vector<Certificate> Trust::own_right(Time now, const PeerKey& without) const {
  const auto found = entries_.find(options_.self);
  if (found == entries_.end() || !is_entitled(options_.self, chain_max - 1, without)) return {};
  for (const auto* one : {&found->second.newest, &found->second.right}) {
    if (!*one || !(*one)->may_invite || (*one)->expires_s <= wall(now)) continue;
    const PeerKey& issuer = (*one)->issuer;
    // A peer that has renewed its own certificate includes the earlier one that allowed the
    // renewal.
    const std::size_t left = issuer == options_.self ? chain_max - 1 : chain_max - 2;
    if (!is_entitled(issuer, left, without)) continue;
    std::vector<Certificate> chain = right_of(issuer, left, without);
    chain.push_back(**one);
    return chain;
  }
  return {};
}

bool Trust::sign_revocations(Time now, const std::vector<PeerKey>& keys) {
  const Signer& signer = options_.swarm_signer != nullptr ? *options_.swarm_signer : *signer_;
  std::vector<Revocation> signed_now;
  for (const PeerKey& key : keys) {
    Revocation made{
        .swarm = options_.swarm, .issuer = signing_key(), .key = key, .signed_s = wall(now)};
    if (options_.swarm_signer == nullptr) {
      made.chain = own_right(now, key);
      if (made.chain.empty()) continue;
    }
    made.signature = signer.sign(signed_bytes(made));
    signed_now.push_back(std::move(made));
  }
  if (signed_now.empty()) return false;
  take_all(now, {.held = {}, .certificates = {}, .revocations = std::move(signed_now)},
           Source::other_peer);
  return true;
}

/// Signs a certificate, and takes it as if another peer had sent it.
Certificate Trust::take_own(Time now, Certificate blank) {
  const Certificate made = signed_certificate(now, std::move(blank));
  take_all(now, {.held = {}, .certificates = {made}, .revocations = {}}, Source::other_peer);
  return made;
}

std::optional<Certificate> Trust::certify(Time now, const PeerKey& key, const std::string& name,
                                          bool may_invite, const View& live, Effects& out) {
  if (!this->may_invite(now) || is_revoked(key) || !is_peer_name(name)) return std::nullopt;
  const Certificate made = take_own(now, {.key = key,
                                          .name = free_name(name, key),
                                          .number = free_number(key),
                                          .may_invite = may_invite});
  if (accepted(key) == nullptr) return std::nullopt;
  spread(std::nullopt, live, out);
  return made;
}

/// The keys of peers with this name or id that are not revoked. Peers with expired certificates
/// count too, because their keys can still sign backdated revocations.
std::vector<PeerKey> Trust::keys_named(std::string_view name) const {
  std::vector<PeerKey> keys;
  for (const auto& [key, entry] : entries_) {
    const Certificate* certificate = latest(entry);
    const bool has_name = certificate != nullptr && certificate->name == name;
    if (!is_revoked(key) && (has_name || id_text(key) == name)) keys.push_back(key);
  }
  return keys;
}

std::string Trust::id_text(const PeerKey& key) const { return to_string(signer_->id_of(key)); }

Problems Trust::revoke(Time now, std::string_view name, bool with_invited, const View& live,
                       Effects& out) {
  const auto problem = [&](std::string reason, std::string remedy) {
    return Problems{{std::string(name), std::move(reason), std::move(remedy)}};
  };
  if (!may_invite(now)) {
    return problem("this peer may not revoke", "ask a peer that may invite others");
  }
  const std::vector<PeerKey> named = keys_named(name);
  if (named.empty()) {
    return problem("no peer of the swarm has this name", "`grapevine status` lists their names");
  }
  if (named.size() > 1) {
    std::string ids;
    for (const PeerKey& one : named) ids += (ids.empty() ? "" : " or ") + id_text(one);
    return problem("several peers have this name", "give one of them by its id: " + ids);
  }
  const PeerKey key = named.front();
  if (key == options_.self) return problem("this is the peer that was asked", "ask another one");
  const std::vector<Certificate> before = accepted_;
  const std::map<PeerKey, std::vector<Revocation>> counted = revocations_.counting();
  if (!sign_revocations(now, {key})) {
    return problem("this peer's own right to invite comes from it",
                   "ask a peer that the swarm's first peer has invited");
  }
  if (!is_revoked(key)) {
    return problem("this peer holds as many revocations as it can",
                   "ask again when some of them are over, or begin a new swarm");
  }
  // Revocations that counted only through this key must stay in force, so sign them too.
  std::vector<PeerKey> fell;
  for (const auto& [other, counting] : counted) {
    if (!is_revoked(other) && entries_.contains(other)) fell.push_back(other);
  }
  sign_revocations(now, fell);
  for (const Certificate& certificate : before) {
    const bool fell_with_it = certificate.key != key && accepted(certificate.key) == nullptr;
    if (fell_with_it && !with_invited) take_own(now, certificate);
  }
  spread(std::nullopt, live, out);
  return {};
}

/// Renews the certificates of live peers in the second half of their validity. If several peers may
/// invite, chance decides which one renews. Near the end of the validity, all of them try.
void Trust::renew(Time now, const View& live) {
  if (!may_invite(now)) return;
  const std::vector<Certificate> before = accepted_;
  for (const Certificate& certificate : before) {
    const std::uint64_t left = certificate.expires_s - std::min(certificate.expires_s, wall(now));
    const bool is_live =
        certificate.key == options_.self || live.contains(signer_->id_of(certificate.key));
    const bool is_due = left < certificate_lifetime_s / 2 &&
                        (left < certificate_lifetime_s / 8 || rng_.below(live.size() + 1) == 0);
    if (is_live && is_due) take_own(now, certificate);
  }
}

/// True if this peer should now sign a revocation of `key`, although other revocations of it count.
/// There are three possible reasons: too few peers have signed; a certificate of the key outlives
/// the revocations; or the revocations are about to end, and the key may have signed one with a
/// later date, which would then count. Chance decides which of several peers signs.
bool Trust::is_due(const PeerKey& key, const std::vector<Revocation>& counting, Time now,
                   const View& live) {
  const auto known = entries_.find(key);
  // Without a certificate the key has no place to lose. It may even be made up.
  if (known == entries_.end()) return false;
  const std::uint64_t last_s =
      std::ranges::max_element(counting, {}, &Revocation::signed_s)->signed_s;
  const auto has_signed = [&](const PeerKey& issuer) {
    return std::ranges::find(counting, issuer, &Revocation::issuer) != counting.end();
  };
  const std::uint64_t expires_s = known->second.newest->expires_s;
  const bool is_outlived = last_s < wall(now) && expires_s >= last_s + revocation_lifetime_s;
  const bool is_ending =
      wall(now) >= last_s + certificate_lifetime_s && last_s < expires_s + dated_after_expiry_s;
  const bool lacks_issuers = counting.size() < issuers_wanted && !has_signed(options_.swarm) &&
                             !has_signed(signing_key()) && live.size() > 1 &&
                             now - revoked_since_.at(key) >= signed_again_after;
  if (!is_outlived && !is_ending && !lacks_issuers) return false;
  const auto others = std::ranges::count_if(accepted_, [&](const Certificate& one) {
    return one.may_invite && live.contains(signer_->id_of(one.key));
  });
  return rng_.below(static_cast<std::uint64_t>(others) + 1) == 0;
}

/// Signs revocations that would otherwise cease to count. Also signs our own revocations again if
/// their chains no longer hold.
void Trust::sign_again(Time now, const View& live) {
  if (!may_invite(now)) return;
  std::vector<PeerKey> due;
  for (const auto& [key, counting] : revocations_.counting()) {
    if (is_due(key, counting, now, live)) due.push_back(key);
  }
  for (const auto& [key, held] : revocations_.held()) {
    const auto own = std::ranges::find(held, signing_key(), &Revocation::issuer);
    const bool is_void = own != held.end() && !is_revoked(key) && own->chain != own_right(now, key);
    if (is_void) due.push_back(key);
  }
  sign_revocations(now, due);
}

}  // namespace gv
