// The rules by which certificates count, and how they travel.
#include "consensus/trust/trust.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <tuple>

#include "base/canonical.hpp"

namespace gv {
namespace {

/// Clocks may differ by this much before a certificate is refused for lasting too long.
constexpr std::uint64_t clock_slack_s = 24 * 3600;

/// Peers that hear of something new at once; the others hear of it from these, or by comparing.
constexpr std::size_t told_at_once = 8;

/// Pause before a peer sends everything again to one that still holds the same.
constexpr Duration send_again_after = std::chrono::seconds(10);

/// Pause before a peer sends everything again to any one, so that short messages buy few long ones.
constexpr Duration send_all_after = std::chrono::seconds(1);

/// A revocation is kept until all older certificates of its key have expired.
constexpr std::uint64_t revocation_lifetime_s = certificate_lifetime_s + 2 * clock_slack_s;

/// The two keys with the same 31 bytes and the same last seven bits have one CURVE key.
PeerKey twin_of(PeerKey key) {
  key.back() ^= 0x80;
  return key;
}

/// Cuts a message into messages that may be sent; at least one.
std::vector<Certificates> in_parts(const Certificates& whole) {
  std::vector<Certificates> parts;
  std::size_t first = 0;
  const auto cut = [&](const auto& from, auto& to) {
    const std::size_t end = std::min(from.size(), first + certificates_in_message_max);
    for (std::size_t i = first; i < end; ++i) to.push_back(from[i]);
  };
  do {
    Certificates& part = parts.emplace_back();
    part.held = whole.held;
    cut(whole.certificates, part.certificates);
    cut(whole.revocations, part.revocations);
    first += certificates_in_message_max;
  } while (first < std::max(whole.certificates.size(), whole.revocations.size()));
  return parts;
}

}  // namespace

Trust::Trust(Options options, const Signer& signer, Rng rng)
    : options_(options), signer_(&signer), rng_(rng), self_(signer.id_of(options.self)) {
  refresh(Time{});
}

std::uint64_t Trust::wall(Time now) const {
  return options_.wall_s +
         static_cast<std::uint64_t>(
             std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count());
}

// ---- Which certificates count ----

bool Trust::is_entitled(const PeerKey& key, std::size_t left, const PeerKey& without) const {
  if (key == options_.swarm) return true;
  if (left == 0 || key == without || is_revoked(key)) return false;
  const auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  const auto helps = [&](const std::optional<Certificate>& certificate) {
    return certificate && certificate->may_invite && certificate->issuer != key &&
           is_entitled(certificate->issuer, left - 1, without);
  };
  return helps(found->second.right) || helps(found->second.newest);
}

bool Trust::counts(const Certificate& certificate) const {
  return is_entitled(certificate.issuer, chain_max - 1);
}

const Certificate* Trust::latest(const Entry& entry) const {
  if (counts(*entry.newest)) return &*entry.newest;
  return entry.right && counts(*entry.right) ? &*entry.right : nullptr;
}

/// True if a certificate of the key counts and has not expired.
bool Trust::is_current(const PeerKey& key, std::uint64_t wall_s) const {
  if (key == options_.swarm) return true;
  const auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  const Certificate* certificate = latest(found->second);
  return certificate != nullptr && certificate->expires_s > wall_s;
}

std::size_t Trust::distance(const PeerKey& key, std::size_t left) const {
  if (key == options_.swarm) return 0;
  const auto found = left == 0 ? entries_.end() : entries_.find(key);
  if (found == entries_.end()) return left + 1;
  std::size_t least = left + 1;
  for (const auto* certificate : {&found->second.right, &found->second.newest}) {
    if (!*certificate || !(*certificate)->may_invite || (*certificate)->issuer == key) continue;
    least = std::min(least, 1 + distance((*certificate)->issuer, left - 1));
  }
  return least;
}

bool Trust::is_better_right(const Certificate& a, const Certificate& b) const {
  const std::size_t far_a = distance(a.issuer, chain_max), far_b = distance(b.issuer, chain_max);
  const bool counts_a = counts(a), counts_b = counts(b);
  return std::tie(counts_a, far_b, a.expires_s, a.signature) >
         std::tie(counts_b, far_a, b.expires_s, b.signature);
}

/// True if the key has signed something that is held.
bool Trust::is_needed(const PeerKey& key) const {
  const auto is_of = [&](const std::optional<Certificate>& certificate) {
    return certificate && certificate->issuer == key && certificate->key != key;
  };
  return std::ranges::any_of(entries_,
                             [&](const auto& item) {
                               return is_of(item.second.newest) || is_of(item.second.right);
                             }) ||
         std::ranges::any_of(revocations_,
                             [&](const auto& item) { return item.second.issuer == key; });
}

// ---- Taking certificates and revocations ----

bool Trust::is_signed_by(const PeerKey& issuer, const std::vector<std::byte>& bytes,
                         const Signature& signature) const {
  return signer_->verify_key(issuer, bytes, signature);
}

/// Puts a certificate where it belongs. Returns false if the entry has better ones.
bool Trust::keep(Entry& entry, const Certificate& certificate) const {
  bool is_kept = false;
  const auto later = [&](const Certificate& a, const Certificate& b) {
    const bool counts_a = counts(a), counts_b = counts(b);
    return std::tie(counts_a, a.expires_s, a.signature) >
           std::tie(counts_b, b.expires_s, b.signature);
  };
  if (certificate.may_invite && (!entry.right || is_better_right(certificate, *entry.right))) {
    entry.right = certificate;
    is_kept = true;
  }
  if (!entry.newest || later(certificate, *entry.newest)) {
    entry.newest = certificate;
    is_kept = true;
  }
  return is_kept;
}

Trust::Outcome Trust::take(Time now, const Certificate& certificate, Source source) {
  const std::uint64_t now_s = wall(now);
  if (certificate.swarm != options_.swarm || !certificate.problem().empty() ||
      certificate.key == options_.swarm || entries_.contains(twin_of(certificate.key)) ||
      certificate.expires_s > now_s + certificate_lifetime_s + clock_slack_s) {
    return Outcome::unchanged;
  }
  const auto found = entries_.find(certificate.key);
  const bool is_held = found != entries_.end() &&
                       (found->second.newest == certificate || found->second.right == certificate);
  if (is_held || !is_entitled(certificate.issuer, chain_max - 1, certificate.key)) {
    // A peer may renew its own certificate if it may invite.
    const bool renews_itself =
        !is_held && certificate.issuer == certificate.key && counts(certificate);
    if (!renews_itself) return Outcome::unchanged;
  }
  const bool has_expired = certificate.expires_s <= now_s;
  if (source == Source::other_peer) {
    if (!has_expired && !is_current(certificate.issuer, now_s)) return Outcome::unchanged;
    if (has_expired && !certificate.may_invite) return Outcome::unchanged;
  }
  Entry entry = found == entries_.end() ? Entry{} : found->second;
  if (!keep(entry, certificate)) return Outcome::unchanged;
  if (!is_signed_by(certificate.issuer, signed_bytes(certificate), certificate.signature)) {
    return Outcome::forged;
  }
  if (found == entries_.end()) {
    if (entries_.size() >= certified_max) make_room(now_s);
    if (entries_.size() >= certified_max) return Outcome::unchanged;
  }
  entries_[certificate.key] = std::move(entry);
  return Outcome::taken;
}

/// Drops keys that do not belong to the swarm and on which no other key's place rests.
void Trust::make_room(std::uint64_t wall_s) {
  std::set<PeerKey> needed;
  for (const auto& [key, entry] : entries_) {
    needed.insert(entry.newest->issuer);
    if (entry.right) needed.insert(entry.right->issuer);
  }
  std::vector<PeerKey> unneeded;
  for (const auto& [key, entry] : entries_) {
    const Certificate* certificate = latest(entry);
    const bool is_over = certificate != nullptr && certificate->expires_s <= wall_s &&
                         !is_revoked(key) && !needed.contains(key);
    if (certificate == nullptr || is_over) unneeded.push_back(key);
  }
  for (const PeerKey& key : unneeded) entries_.erase(key);
}

/// True if the issuer may revoke the key, and could when it can have signed this.
bool Trust::may_revoke(const Revocation& revocation) const {
  if (!is_entitled(revocation.issuer, chain_max - 1, revocation.key)) return false;
  if (revocation.issuer == options_.swarm) return true;
  const Certificate* own = latest(entries_.at(revocation.issuer));
  return own != nullptr && revocation.until_s <= own->expires_s + revocation_lifetime_s;
}

/// A known key's revocation gets the place of an unknown key's, so that junk keeps none out.
bool Trust::has_room_for(const Revocation& revocation) {
  if (revocations_.contains(revocation.key) || revocations_.size() < certified_max) return true;
  if (!entries_.contains(revocation.key)) return false;
  const auto junk = std::ranges::find_if(
      revocations_, [&](const auto& item) { return !entries_.contains(item.first); });
  if (junk == revocations_.end()) return false;
  revocations_.erase(junk);
  return true;
}

Trust::Outcome Trust::take(Time now, const Revocation& revocation, Source source) {
  const std::uint64_t now_s = wall(now);
  if (revocation.swarm != options_.swarm || revocation.key == options_.swarm ||
      revocation.until_s <= now_s ||
      revocation.until_s > now_s + revocation_lifetime_s + clock_slack_s) {
    return Outcome::unchanged;
  }
  const auto found = revocations_.find(revocation.key);
  const bool is_later =
      found == revocations_.end() || std::tie(revocation.until_s, revocation.signature) >
                                         std::tie(found->second.until_s, found->second.signature);
  // What has counted once counts after a restart too, even if its issuer has been revoked since.
  if (!is_later || (source == Source::other_peer && !may_revoke(revocation))) {
    return Outcome::unchanged;
  }
  if (!is_signed_by(revocation.issuer, signed_bytes(revocation), revocation.signature)) {
    return Outcome::forged;
  }
  if (!has_room_for(revocation)) return Outcome::unchanged;
  revocations_[revocation.key] = revocation;
  return Outcome::taken;
}

bool Trust::take_all(Time now, const Certificates& message, Source source) {
  bool took = false, is_forged = false;
  bool is_new = true;
  for (std::size_t pass = 0; is_new && !is_forged && pass < chain_max; ++pass) {
    is_new = false;
    for (const Certificate& certificate : message.certificates) {
      const Outcome outcome = take(now, certificate, source);
      is_forged = outcome == Outcome::forged;
      if (is_forged) break;
      if (outcome != Outcome::taken) continue;
      fresh_.certificates.push_back(certificate);
      is_new = true;
      took = true;
    }
  }
  for (const Revocation& revocation : message.revocations) {
    if (is_forged) break;
    const Outcome outcome = take(now, revocation, source);
    is_forged = outcome == Outcome::forged;
    if (outcome != Outcome::taken) continue;
    fresh_.revocations.push_back(revocation);
    took = true;
  }
  // What came before a forged item is held, so it counts.
  if (took) {
    ++changes_;
    refresh(now);
  }
  return !is_forged;
}

void Trust::restore(Time now, const std::vector<Certificate>& certificates,
                    const std::vector<Revocation>& revocations) {
  take_all(now, {.held = {}, .certificates = certificates, .revocations = revocations},
           Source::own_record);
  fresh_ = {};  // Others see what they lack when they compare.
}

void Trust::refresh(Time now) {
  const std::uint64_t now_s = wall(now);
  std::vector<Certificate> accepted;
  next_expiry_s_ = ~std::uint64_t{0};
  for (const auto& [key, entry] : entries_) {
    const Certificate* certificate = is_revoked(key) ? nullptr : latest(entry);
    if (certificate == nullptr || certificate->expires_s <= now_s) continue;
    accepted.push_back(*certificate);
    next_expiry_s_ = std::min(next_expiry_s_, certificate->expires_s);
  }
  if (accepted != accepted_) {
    accepted_ = std::move(accepted);
    ++version_;
  }
  CanonicalBytes bytes("grapevine certificates 1");
  bytes.add(certificates(), revocations());
  held_ = signer_->digest(bytes.bytes());
}

const Certificate* Trust::accepted(const PeerKey& key) const {
  const auto found = std::ranges::lower_bound(accepted_, key, {}, &Certificate::key);
  return found != accepted_.end() && found->key == key ? &*found : nullptr;
}

std::vector<Certificate> Trust::certificates() const {
  std::vector<Certificate> all;
  for (const auto& [key, entry] : entries_) {
    if (entry.right && counts(*entry.right)) all.push_back(*entry.right);
    if (entry.newest != entry.right && counts(*entry.newest)) all.push_back(*entry.newest);
  }
  return all;
}

std::vector<Revocation> Trust::revocations() const {
  std::vector<Revocation> all;
  for (const auto& [key, revocation] : revocations_) all.push_back(revocation);
  return all;
}

// ---- Signing ----

bool Trust::may_invite(Time now) const {
  return options_.swarm_signer != nullptr ||
         (accepted(options_.self) != nullptr && is_current(options_.self, wall(now)) &&
          is_entitled(options_.self, chain_max - 1));
}

/// The smallest number that no other peer of the swarm has. Two peers that invite at the same
/// moment may choose the same one; then two peers train on one shard.
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
  certificate.issuer = options_.swarm_signer != nullptr ? options_.swarm : options_.self;
  certificate.expires_s = wall(now) + certificate_lifetime_s;
  certificate.signature = signer.sign(signed_bytes(certificate));
  return certificate;
}

Revocation Trust::signed_revocation(Time now, const PeerKey& key) const {
  const Signer& signer = options_.swarm_signer != nullptr ? *options_.swarm_signer : *signer_;
  Revocation made{.swarm = options_.swarm,
                  .issuer = options_.swarm_signer != nullptr ? options_.swarm : options_.self,
                  .key = key,
                  .until_s = wall(now) + revocation_lifetime_s};
  made.signature = signer.sign(signed_bytes(made));
  return made;
}

/// Signs a certificate, and takes it like one of another peer.
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

Problems Trust::revoke(Time now, std::string_view name, bool with_invited, const View& live,
                       Effects& out) {
  const auto problem = [&](std::string reason, std::string remedy) {
    return Problems{{std::string(name), std::move(reason), std::move(remedy)}};
  };
  if (!may_invite(now)) {
    return problem("this peer may not revoke", "ask a peer that may invite others");
  }
  const auto target = std::ranges::find(accepted_, name, &Certificate::name);
  if (target == accepted_.end()) {
    return problem("no peer of the swarm has this name", "`grapevine status` lists their names");
  }
  const PeerKey key = target->key;
  if (key == options_.self) return problem("this is the peer that was asked", "ask another one");
  const PeerKey signer_key = options_.swarm_signer ? options_.swarm : options_.self;
  if (!is_entitled(signer_key, chain_max - 1, key)) {
    return problem("this peer's own right to invite comes from it",
                   "ask a peer that the swarm's first peer has invited");
  }
  const std::vector<Certificate> before = accepted_;
  take_all(now, {.held = {}, .certificates = {}, .revocations = {signed_revocation(now, key)}},
           Source::other_peer);
  if (!is_revoked(key)) {
    return problem("this peer holds as many revocations as it can",
                   "ask again when some of them are over, or begin a new swarm");
  }
  for (const Certificate& certificate : before) {
    const bool fell_with_it = certificate.key != key && accepted(certificate.key) == nullptr;
    if (fell_with_it && !with_invited) take_own(now, certificate);
  }
  spread(std::nullopt, live, out);
  return {};
}

// ---- Passing on ----

void Trust::contact(PeerId peer, Effects& out) const {
  out.send(peer, Certificates{.held = held_});
}

void Trust::receive(Time now, PeerId from, const Certificates& message, const View& live,
                    Effects& out) {
  if (!take_all(now, message, Source::other_peer)) {
    out.tell(MessageRefused{.peer = from, .reason = Reason::forged});
  }
  spread(from, live, out);
  if (message.held != held_) send_all(now, from, message.held, out);
}

void Trust::show(Time now, const Certificates& shown, const View& live, Effects& out) {
  if (shown.certificates.empty() || shown.certificates.size() > chain_max) return;
  // Judged on a copy, so that a stranger fills no table with what proves nothing.
  Trust judged = *this;
  const PeerKey key = shown.certificates.back().key;
  const Certificates chain{.held = {}, .certificates = shown.certificates, .revocations = {}};
  if (accepted(key) != nullptr || !judged.take_all(now, chain, Source::other_peer)) return;
  if (judged.accepted(key) == nullptr) return;
  *this = std::move(judged);
  spread(std::nullopt, live, out);
}

std::vector<Certificate> Trust::own_chain() const {
  std::vector<Certificate> chain;
  PeerKey key = options_.self;
  while (key != options_.swarm && chain.size() < chain_max) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) break;
    const Entry& entry = found->second;
    const bool is_own =
        chain.empty() && entry.newest->issuer != key && latest(entry) == &*entry.newest;
    const Certificate& next = is_own || !entry.right ? *entry.newest : *entry.right;
    chain.push_back(next);
    key = next.issuer;
  }
  std::ranges::reverse(chain);
  return chain;
}

/// Passes on what is new here. A peer that gets it passes it on in turn.
void Trust::spread(std::optional<PeerId> except, const View& live, Effects& out) {
  if (fresh_.certificates.empty() && fresh_.revocations.empty()) return;
  fresh_.held = held_;
  for (const Revocation& revocation : fresh_.revocations) {
    const auto known = entries_.find(revocation.key);
    if (known == entries_.end()) continue;
    out.tell(CertificateRevoked{.name = known->second.newest->name});
  }
  std::vector<PeerId> others = live.peers();
  std::erase_if(others, [&](PeerId peer) { return peer == self_ || peer == except; });
  rng_.shuffle(std::span(others));
  others.resize(std::min(others.size(), told_at_once));
  for (const Certificates& part : in_parts(fresh_)) {
    for (const PeerId peer : others) out.send(peer, part);
  }
  fresh_ = {};
}

void Trust::send_all(Time now, PeerId to, const Digest& theirs, Effects& out) {
  const auto last = sent_all_.find(to);
  if (last != sent_all_.end()) {
    const bool holds_the_same = last->second.ours == held_ && last->second.theirs == theirs;
    if (now - last->second.at < (holds_the_same ? send_again_after : send_all_after)) return;
  }
  sent_all_[to] = {.ours = held_, .theirs = theirs, .at = now};
  const Certificates all{
      .held = held_, .certificates = certificates(), .revocations = revocations()};
  for (const Certificates& part : in_parts(all)) out.send(to, part);
}

/// Renews the certificates of live peers in the second half of their time. With several peers that
/// may invite, chance decides which one does; near the end all try.
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

/// Signs revocations again that would not hold otherwise: where a certificate of the key
/// outlives one, or its issuer may not revoke any more, so that others do not take it.
void Trust::renew_revocations(Time now, const View& live) {
  if (!may_invite(now)) return;
  const PeerKey signer_key = options_.swarm_signer ? options_.swarm : options_.self;
  for (const Revocation& revocation : revocations()) {
    const PeerKey& key = revocation.key;
    const auto known = entries_.find(key);
    const bool is_outlived =
        known != entries_.end() && known->second.newest->expires_s >= revocation.until_s;
    const bool is_due = (is_outlived || !is_entitled(revocation.issuer, chain_max - 1, key)) &&
                        is_entitled(signer_key, chain_max - 1, key) &&
                        revocation.until_s < wall(now) + revocation_lifetime_s;
    if (!is_due || rng_.below(live.size() + 1) != 0) continue;
    take_all(now, {.held = {}, .certificates = {}, .revocations = {signed_revocation(now, key)}},
             Source::other_peer);
  }
}

/// Forgets revocations that are over, and certificates that have expired and on which nothing
/// rests.
void Trust::forget_expired(std::uint64_t wall_s) {
  const std::size_t before = entries_.size() + revocations_.size();
  std::erase_if(revocations_, [&](const auto& item) {
    if (item.second.until_s > wall_s) return false;
    entries_.erase(item.first);
    return true;
  });
  std::vector<PeerKey> unneeded;
  for (const auto& [key, entry] : entries_) {
    const bool is_old = entry.newest->expires_s + certificate_lifetime_s < wall_s;
    if (is_old && !is_needed(key)) unneeded.push_back(key);
  }
  for (const PeerKey& key : unneeded) entries_.erase(key);
  if (entries_.size() + revocations_.size() != before) ++changes_;
}

void Trust::tick(Time now, const View& live, Effects& out) {
  if (now < next_) return;
  next_ = now + options_.period;
  renew(now, live);
  renew_revocations(now, live);
  forget_expired(wall(now));
  refresh(now);
  spread(std::nullopt, live, out);
  std::erase_if(sent_all_, [&](const auto& item) { return !live.contains(item.first); });
  std::vector<PeerId> others = live.peers();
  std::erase(others, self_);
  if (!others.empty()) contact(others[rng_.below(others.size())], out);
}

}  // namespace gv
