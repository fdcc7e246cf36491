// Works out which revocations count. As in a debate, a revocation that is not contested counts.
#include "consensus/trust/revocations.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace gv {
namespace {

bool passes_by(const Revocation& revocation, const PeerKey& key) {
  return std::ranges::any_of(revocation.chain,
                             [&](const Certificate& one) { return one.key == key; });
}

/// The key of the first peer in the chain, or the swarm's key if the chain is empty.
const PeerKey& root_of(const Revocation& revocation) {
  return revocation.chain.empty() ? revocation.swarm : revocation.chain.front().key;
}

/// True if `a` gets one of the places for revocations of a key before `b` does. Short chains come
/// first, because they depend on fewer keys.
bool has_place_before(const Revocation& a, const Revocation& b) {
  return std::tuple(a.chain.size(), root_of(a), a.issuer) <
         std::tuple(b.chain.size(), root_of(b), b.issuer);
}

}  // namespace

bool has_sound_chain(const Revocation& revocation) {
  if (revocation.key == revocation.swarm) return false;
  if (revocation.chain.empty()) return revocation.issuer == revocation.swarm;
  PeerKey issuer = revocation.swarm;
  std::size_t peers = 0;
  for (const Certificate& one : revocation.chain) {
    const bool is_next = one.swarm == revocation.swarm && one.issuer == issuer && one.may_invite &&
                         one.key != revocation.swarm && one.key != revocation.key;
    if (!is_next || !one.problem().empty()) return false;
    if (one.key != issuer) ++peers;  // A peer may renew its own certificate.
    issuer = one.key;
  }
  return issuer == revocation.issuer && peers < chain_max &&
         revocation.signed_s <= revocation.chain.back().expires_s;
}

std::vector<Revocation> Revocations::with(const Revocation& revocation) const {
  std::vector<Revocation> held;
  if (const auto known = held_.find(revocation.key); known != held_.end()) held = known->second;
  const auto same = std::ranges::find(held, revocation.issuer, &Revocation::issuer);
  if (same != held.end()) {
    const bool is_later = std::tie(revocation.signed_s, revocation.signature) >
                          std::tie(same->signed_s, same->signature);
    if (!is_later) return held;
    held.erase(same);
  }
  held.push_back(revocation);
  std::ranges::sort(held, has_place_before);
  std::map<PeerKey, std::size_t> of_root;
  std::erase_if(held, [&](const Revocation& one) { return ++of_root[root_of(one)] > 2; });
  if (held.size() > issuers_max) held.resize(issuers_max);
  return held;
}

bool Revocations::has_place_for(const Revocation& revocation) const {
  const auto known = held_.find(revocation.key);
  const bool is_held =
      known != held_.end() && std::ranges::find(known->second, revocation) != known->second.end();
  const std::vector<Revocation> held = with(revocation);
  return !is_held && std::ranges::find(held, revocation) != held.end();
}

void Revocations::add(const Revocation& revocation) { held_[revocation.key] = with(revocation); }

std::vector<PeerKey> Revocations::drop_expired(std::uint64_t wall_s) {
  std::vector<PeerKey> gone;
  for (auto& [key, held] : held_) {
    std::erase_if(held, [&](const Revocation& one) {
      return one.signed_s + revocation_lifetime_s <= wall_s;
    });
    if (held.empty()) gone.push_back(key);
  }
  for (const PeerKey& key : gone) held_.erase(key);
  return gone;
}

void Revocations::judge() {
  std::vector<const Revocation*> all;
  std::map<PeerKey, std::vector<std::size_t>> of_key;
  for (const auto& [key, held] : held_) {
    for (const Revocation& one : held) {
      of_key[key].push_back(all.size());
      all.push_back(&one);
    }
  }
  // For each revocation, the revocations that it contests, and the number of revocations that
  // contest it and are not known to be void.
  std::vector<std::vector<std::size_t>> contested_by_it(all.size());
  std::vector<std::size_t> contesters(all.size(), 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::set<std::size_t> against;
    for (const Certificate& link : all[i]->chain) {
      const auto found = of_key.find(link.key);
      if (found == of_key.end()) continue;
      for (const std::size_t other : found->second) {
        if (!passes_by(*all[other], all[i]->key)) against.insert(other);
      }
    }
    contesters[i] = against.size();
    for (const std::size_t other : against) contested_by_it[other].push_back(i);
  }
  std::vector<std::size_t> sure;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (contesters[i] == 0) sure.push_back(i);
  }
  std::vector<bool> is_void(all.size(), false);
  while (!sure.empty()) {
    const std::size_t one = sure.back();
    sure.pop_back();
    for (const std::size_t loser : contested_by_it[one]) {
      if (is_void[loser]) continue;
      is_void[loser] = true;
      for (const std::size_t freed : contested_by_it[loser]) {
        if (--contesters[freed] == 0 && !is_void[freed]) sure.push_back(freed);
      }
    }
  }
  counting_.clear();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!is_void[i]) counting_[all[i]->key].push_back(*all[i]);
  }
}

const std::vector<Revocation>* Revocations::counting(const PeerKey& key) const {
  const auto found = counting_.find(key);
  return found == counting_.end() ? nullptr : &found->second;
}

bool Revocations::is_counting(const Revocation& revocation) const {
  const std::vector<Revocation>* of_key = counting(revocation.key);
  return of_key != nullptr && std::ranges::find(*of_key, revocation) != of_key->end();
}

std::size_t Revocations::size() const {
  std::size_t count = 0;
  for (const auto& [key, held] : held_) count += held.size();
  return count;
}

}  // namespace gv
