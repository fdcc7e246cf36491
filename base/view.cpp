// Implements sorted sets of peers.
#include "base/view.hpp"

#include <algorithm>
#include <utility>

#include "base/rng.hpp"

namespace gv {
namespace {

/// A member's contribution to the hash of its set.
std::uint64_t share_of(PeerId peer) { return hash_combine(1, static_cast<std::uint64_t>(peer)); }

}  // namespace

View::View(std::vector<PeerId> peers) : peers_(std::move(peers)) {
  std::sort(peers_.begin(), peers_.end());
  peers_.erase(std::unique(peers_.begin(), peers_.end()), peers_.end());
  for (const PeerId peer : peers_) hash_ += share_of(peer);
}

void View::insert(PeerId peer) {
  const auto at = std::lower_bound(peers_.begin(), peers_.end(), peer);
  if (at != peers_.end() && *at == peer) return;
  peers_.insert(at, peer);
  hash_ += share_of(peer);
}

void View::erase(PeerId peer) {
  const auto at = std::lower_bound(peers_.begin(), peers_.end(), peer);
  if (at == peers_.end() || *at != peer) return;
  peers_.erase(at);
  hash_ -= share_of(peer);
}

bool View::contains(PeerId peer) const {
  return std::binary_search(peers_.begin(), peers_.end(), peer);
}

std::optional<std::size_t> View::rank_of(PeerId peer) const {
  const auto at = std::lower_bound(peers_.begin(), peers_.end(), peer);
  if (at == peers_.end() || *at != peer) return std::nullopt;
  return static_cast<std::size_t>(at - peers_.begin());
}

}  // namespace gv
