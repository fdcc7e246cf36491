// Decides which certificates count, takes and stores them, and passes them on.
#include "consensus/trust/trust.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <tuple>

#include "base/canonical.hpp"

namespace gv {
namespace {

/// Number of peers to which a peer sends news at once. Other peers get the news from these peers,
/// or by comparing what they hold.
constexpr std::size_t told_at_once = 8;

/// Pause before a peer sends everything to the same peer again, if both still hold the same as
/// before.
constexpr Duration send_again_after = std::chrono::seconds(10);

/// After a peer has sent everything to another peer, it pauses this long for each message that this
/// took. Without the pause, short messages could cause many long ones.
constexpr Duration send_all_after = std::chrono::seconds(1);

/// The key that differs from `key` only in the highest bit of the last byte. Both correspond to the
/// same CURVE key.
PeerKey twin_of(PeerKey key) {
  key.back() ^= 0x80;
  return key;
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

/// True if a certificate of another key, or the chain of a revocation, depends on this key.
bool Trust::is_needed(const PeerKey& key) const {
  const auto is_of = [&](const std::optional<Certificate>& certificate) {
    return certificate && certificate->issuer == key && certificate->key != key;
  };
  return std::ranges::any_of(entries_,
                             [&](const auto& item) {
                               return is_of(item.second.newest) || is_of(item.second.right);
                             }) ||
         std::ranges::any_of(revocations_.held(), [&](const auto& item) {
           return std::ranges::any_of(item.second, [&](const Revocation& one) {
             return std::ranges::find(one.chain, key, &Certificate::key) != one.chain.end();
           });
         });
}

// ---- Taking certificates and revocations ----

bool Trust::is_signed_by(const PeerKey& issuer, const std::vector<std::byte>& bytes,
                         const Signature& signature) const {
  return signer_->verify_key(issuer, bytes, signature);
}

/// Stores a certificate in its key's entry. Returns false if the entry already has better ones.
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
    if (has_expired && (!certificate.may_invite || !is_timely(certificate))) {
      return Outcome::unchanged;
    }
  }
  Entry entry = found == entries_.end() ? Entry{} : found->second;
  if (!keep(entry, certificate)) return Outcome::unchanged;
  const bool is_own = certificate.issuer == options_.self || certificate.issuer == signing_key();
  if (source == Source::other_peer && !is_own) {
    if (entry.rested_at > now + (replacements - 1) * replacing_every) return Outcome::unchanged;
    entry.rested_at = std::max(entry.rested_at, now) + replacing_every;
  }
  if (found == entries_.end() && entries_.size() >= certified_max) return Outcome::unchanged;
  if (!is_signed_by(certificate.issuer, signed_bytes(certificate), certificate.signature)) {
    return Outcome::forged;
  }
  entries_[certificate.key] = std::move(entry);
  return Outcome::taken;
}

/// Drops every key that does not belong to the swarm, unless another key's membership depends on
/// it.
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

bool Trust::is_timely(const Certificate& certificate) const {
  if (certificate.issuer == options_.swarm) return true;
  const auto found = entries_.find(certificate.issuer);
  if (found == entries_.end()) return false;
  std::uint64_t until_s = found->second.newest->expires_s;
  if (found->second.right) until_s = std::max(until_s, found->second.right->expires_s);
  return certificate.expires_s <= until_s + certificate_lifetime_s + clock_slack_s;
}

bool Trust::are_timely(const std::vector<Certificate>& chain) const {
  for (std::size_t i = 1; i < chain.size(); ++i) {
    const std::uint64_t signed_by_s = chain[i - 1].expires_s + clock_slack_s;
    if (chain[i].expires_s > signed_by_s + certificate_lifetime_s && !is_timely(chain[i])) {
      return false;
    }
  }
  return true;
}

/// Checks all signatures except those of certificates that we already hold.
bool Trust::is_proved(const Revocation& revocation) const {
  const auto is_held = [&](const Certificate& one) {
    const auto found = entries_.find(one.key);
    return found != entries_.end() && (found->second.newest == one || found->second.right == one);
  };
  return std::ranges::all_of(revocation.chain,
                             [&](const Certificate& one) {
                               return is_held(one) ||
                                      is_signed_by(one.issuer, signed_bytes(one), one.signature);
                             }) &&
         is_signed_by(revocation.issuer, signed_bytes(revocation), revocation.signature);
}

/// True if there is a place for a revocation of this key. A full table keeps the smallest of the
/// keys that have no certificate, so that all peers keep the same ones, whatever came first.
bool Trust::has_room_for(const PeerKey& key) const {
  const auto& held = revocations_.held();
  if (held.size() < revoked_max || held.contains(key) || entries_.contains(key)) return true;
  const auto largest = std::find_if(
      held.rbegin(), held.rend(), [&](const auto& item) { return !entries_.contains(item.first); });
  return largest != held.rend() && key < largest->first;
}

/// If the table is full, drops revocations of keys that have no certificate: first all that do not
/// count, then those of the largest keys.
void Trust::drop_strangers() {
  const auto& held = revocations_.held();
  if (held.size() < revoked_max) return;
  std::vector<PeerKey> idle, counting;
  for (const auto& [key, of_key] : held) {
    if (!entries_.contains(key)) (is_revoked(key) ? counting : idle).push_back(key);
  }
  for (const PeerKey& key : idle) revocations_.drop(key);
  for (; held.size() > revoked_max && !counting.empty(); counting.pop_back()) {
    revocations_.drop(counting.back());
  }
  revocations_.judge();
}

Trust::Outcome Trust::take(Time now, const Revocation& revocation) {
  const std::uint64_t now_s = wall(now);
  const std::uint64_t latest_s = now_s + certificate_lifetime_s + clock_slack_s;
  const bool lasts_too_long = std::ranges::any_of(
      revocation.chain, [&](const Certificate& one) { return one.expires_s > latest_s; });
  if (revocation.swarm != options_.swarm || revocation.signed_s > now_s + clock_slack_s ||
      revocation.signed_s + revocation_lifetime_s <= now_s || lasts_too_long ||
      !has_sound_chain(revocation) || !are_timely(revocation.chain)) {
    return Outcome::unchanged;
  }
  Time* rested_at = nullptr;  // The issuer's budget, if this revocation replaces an earlier one.
  const auto held = revocations_.held().find(revocation.key);
  if (held != revocations_.held().end()) {
    const auto same = std::ranges::find(held->second, revocation.issuer, &Revocation::issuer);
    if (same != held->second.end()) {
      const bool is_known = std::tie(revocation.signed_s, revocation.signature) <=
                            std::tie(same->signed_s, same->signature);
      if (is_known) return Outcome::unchanged;
      rested_at = &revokers_rested_at_[revocation.issuer];
      if (*rested_at > now + (replacements - 1) * replacing_every) return Outcome::unchanged;
    }
  }
  // Signatures cost most, so they are checked last.
  if (!has_room_for(revocation.key) || !revocations_.has_place_for(revocation)) {
    return Outcome::unchanged;
  }
  if (!is_proved(revocation)) return Outcome::forged;
  if (rested_at != nullptr) *rested_at = std::max(*rested_at, now) + replacing_every;
  revocations_.add(revocation);
  return Outcome::taken;
}

void Trust::judge(Time now) {
  revocations_.judge();
  drop_strangers();
  std::erase_if(revoked_since_, [&](const auto& item) { return !is_revoked(item.first); });
  for (const auto& [key, counting] : revocations_.counting()) {
    if (revoked_since_.try_emplace(key, now).second) newly_revoked_.push_back(key);
  }
}

bool Trust::take_all(Time now, const Certificates& message, Source source) {
  // A peer that was stopped for a long time may learn that it has lost its place before it learns
  // of a new one.
  if (accepted(options_.self) != nullptr) belonged_ = now;
  const bool needs_room = std::ranges::any_of(message.certificates, [&](const Certificate& one) {
    return one.expires_s > wall(now) && !entries_.contains(one.key);
  });
  if (needs_room && entries_.size() >= certified_max) make_room(wall(now));
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
    const Outcome outcome = take(now, revocation);
    is_forged = outcome == Outcome::forged;
    if (outcome != Outcome::taken) continue;
    fresh_.revocations.push_back(revocation);
    took = true;
  }
  if (!fresh_.revocations.empty()) {
    judge(now);
    std::erase_if(fresh_.revocations, [this](const auto& one) { return !is_of_use(one); });
  }
  // The items that precede a forged one have been stored, so they count.
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
  fresh_ = {};  // Pass nothing on: peers compare what they hold, and so find what they lack.
  newly_revoked_.clear();
  belonged_ = now;
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

/// False if passing the revocation on would change nothing, because its key has no certificate and
/// the revocation does not count. It is still kept, because it will count if the revocations that
/// contest it cease to count.
bool Trust::is_of_use(const Revocation& revocation) const {
  return entries_.contains(revocation.key) || revocations_.is_counting(revocation);
}

std::vector<Revocation> Trust::revocations() const {
  std::vector<Revocation> all;
  for (const auto& [key, held] : revocations_.held()) {
    std::ranges::copy_if(held, std::back_inserter(all),
                         [this](const Revocation& one) { return is_of_use(one); });
  }
  return all;
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
  const PeerKey& root = shown.certificates.front().issuer;
  const PeerKey key = shown.certificates.back().key;
  if (accepted(key) != nullptr || (root != options_.swarm && !entries_.contains(root))) return;
  // Check the items on a copy, so that a stranger cannot fill our tables with items that prove
  // nothing.
  Trust judged = *this;
  const Certificates chain{.held = {}, .certificates = shown.certificates, .revocations = {}};
  if (!judged.take_all(now, chain, Source::other_peer)) return;
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

/// Passes on certificates and revocations that are new to us. Their receivers pass them on in turn.
void Trust::spread(std::optional<PeerId> except, const View& live, Effects& out) {
  if (fresh_.certificates.empty() && fresh_.revocations.empty()) return;
  fresh_.held = held_;
  for (const PeerKey& key : newly_revoked_) {
    const auto known = entries_.find(key);
    if (known == entries_.end()) continue;
    out.tell(CertificateRevoked{.name = known->second.newest->name});
  }
  newly_revoked_.clear();
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
    const Duration pause = last->second.messages * send_all_after;
    if (now - last->second.at < (holds_the_same ? std::max(pause, send_again_after) : pause)) {
      return;
    }
  }
  const std::vector<Certificates> parts =
      in_parts({.held = held_, .certificates = certificates(), .revocations = revocations()});
  for (const Certificates& part : parts) out.send(to, part);
  sent_all_[to] = {.ours = held_, .theirs = theirs, .at = now, .messages = parts.size()};
}

/// Forgets expired revocations, and expired certificates on which nothing else depends.
void Trust::forget_expired(Time now) {
  if (jumped_ && now < *jumped_ + clock_believed_after) return;
  const std::uint64_t wall_s = wall(now);
  const std::size_t before = entries_.size() + revocations_.size();
  for (const PeerKey& key : revocations_.drop_expired(wall_s)) {
    // A void revocation, such as one by a key that was revoked itself, has removed no peer.
    if (is_revoked(key)) entries_.erase(key);
  }
  std::vector<PeerKey> unneeded;
  for (const auto& [key, entry] : entries_) {
    const bool is_old = entry.newest->expires_s + certificate_lifetime_s < wall_s;
    // The entry of a revoked key determines how long its revocation has to last.
    if (is_old && !is_needed(key) && !is_revoked(key)) unneeded.push_back(key);
  }
  for (const PeerKey& key : unneeded) entries_.erase(key);
  if (entries_.size() + revocations_.size() == before) return;
  ++changes_;
  judge(now);
}

bool Trust::must_leave(Time now) const {
  if (is_revoked(options_.self)) return true;
  return accepted(options_.self) == nullptr && now >= belonged_ + patience_of_the_uncertified;
}

void Trust::tick(Time now, const View& live, Effects& out) {
  if (now < next_) return;
  next_ = now + options_.period;
  renew(now, live);
  sign_again(now, live);
  forget_expired(now);
  refresh(now);
  if (accepted(options_.self) != nullptr) belonged_ = now;
  spread(std::nullopt, live, out);
  std::erase_if(sent_all_, [&](const auto& item) { return !live.contains(item.first); });
  std::erase_if(revokers_rested_at_, [&](const auto& item) { return item.second <= now; });
  std::vector<PeerId> others = live.peers();
  std::erase(others, self_);
  if (!others.empty()) contact(others[rng_.below(others.size())], out);
}

}  // namespace gv
