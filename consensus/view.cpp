// Sorted sets of peers.
#include "consensus/view.hpp"

#include <algorithm>
#include <utility>

#include "consensus/base/rng.hpp"

namespace gv {

View::View(std::vector<PeerId> peers) : peers_(std::move(peers)) {
  std::sort(peers_.begin(), peers_.end());
  peers_.erase(std::unique(peers_.begin(), peers_.end()), peers_.end());
  hash_ = peers_.size();
  for (const PeerId peer : peers_) hash_ = hash_combine(hash_, static_cast<std::uint64_t>(peer));
}

bool View::contains(PeerId peer) const {
  return std::binary_search(peers_.begin(), peers_.end(), peer);
}

}  // namespace gv
