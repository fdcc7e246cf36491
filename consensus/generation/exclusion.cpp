// Keeps each peer's refusals until they expire, and counts how many peers refuse a peer.
#include "consensus/generation/exclusion.hpp"

#include <algorithm>
#include <utility>

namespace gv {

bool Exclusion::lose(Time now, PeerId peer) {
  losses_.take(now, peer);
  return losses_.is_low(now, peer) &&
         refuse(now, peer, BallotBudget::burst * BallotBudget::interval);
}

bool Exclusion::refuse(Time now, PeerId peer, Duration lasts) {
  if (peer == self_) return false;
  const auto [entry, is_new] = until_[self_].emplace(peer, now + lasts);
  entry->second = std::max(entry->second, now + lasts);
  return is_new;
}

void Exclusion::hear(Time now, PeerId from, const std::vector<PeerId>& refused) {
  until_.erase(from);
  for (const PeerId peer : refused) {
    if (peer != from) until_[from][peer] = now + lasts_;
  }
}

/// True if there is a peer that we refuse, though not for ever, and that few others have refused
/// meanwhile.
bool Exclusion::is_lonely() const {
  const auto own = until_.find(self_);
  return own != until_.end() && std::ranges::any_of(own->second, [this](const auto& one) {
           return one.second != never && !shared_.contains(one.first);
         });
}

bool Exclusion::tick(Time now, const std::vector<PeerId>& peers) {
  conduct_.tick(now);
  losses_.tick(now);
  for (const PeerId peer : own()) {
    if (is_refused_by_many(peer, peers)) shared_.insert(peer);
  }
  bool changed = false;
  for (auto& [accuser, accused] : until_) {
    std::erase_if(accused, [&, is_own = accuser == self_](const auto& one) {
      const bool is_over = one.second <= now;
      if (is_over && is_own) {
        changed = true;
        if (shared_.erase(one.first) == 0) tolerates_until_ = now + lasts_;
      }
      return is_over;
    });
  }
  std::erase_if(until_, [](const auto& entry) { return entry.second.empty(); });
  return changed;
}

Time Exclusion::deadline() const {
  Time first = never;
  for (const auto& [accuser, accused] : until_) {
    for (const auto& [peer, until] : accused) first = std::min(first, until);
  }
  return first;
}

std::vector<PeerId> Exclusion::own() const {
  std::vector<PeerId> peers;
  const auto found = until_.find(self_);
  if (found == until_.end()) return peers;
  for (const auto& [peer, until] : found->second) peers.push_back(peer);
  return peers;
}

bool Exclusion::refuses(PeerId accuser, PeerId accused) const {
  const auto found = until_.find(accuser);
  return found != until_.end() && found->second.contains(accused);
}

bool Exclusion::is_refused_for_ever(PeerId peer) const {
  const auto own = until_.find(self_);
  if (own == until_.end()) return false;
  const auto refusal = own->second.find(peer);
  return refusal != own->second.end() && refusal->second == never;
}

bool Exclusion::is_refused_by_many(PeerId peer, const std::vector<PeerId>& peers) const {
  if (until_.empty()) return false;
  const auto accusers =
      std::ranges::count_if(peers, [&](PeerId accuser) { return refuses(accuser, peer); });
  return 3 * static_cast<std::size_t>(accusers) > peers.size();
}

std::vector<PeerId> Exclusion::taking_part(const std::vector<PeerId>& present,
                                           const std::vector<PeerId>& peers) const {
  std::set<PeerId> in;
  std::set<PeerId> undecided(present.begin(), present.end());
  std::erase_if(undecided, [&](PeerId peer) { return is_refused_by_many(peer, peers); });
  for (bool changed = true; std::exchange(changed, false);) {
    for (auto next = undecided.begin(); next != undecided.end();) {
      const PeerId peer = *next;
      const auto is_refused = [&](PeerId other) { return in_step_ && refuses(peer, other); };
      const bool is_out = std::ranges::any_of(in, is_refused);
      if (!is_out && std::ranges::any_of(undecided, is_refused)) {
        ++next;
        continue;
      }
      if (!is_out) in.insert(peer);
      next = undecided.erase(next);
      changed = true;
    }
  }
  return {in.begin(), in.end()};
}

}  // namespace gv
