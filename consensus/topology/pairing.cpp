// Draws matchings from a seed, and partners uniformly at random.
#include "consensus/topology/pairing.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

namespace gv {

std::vector<std::size_t> matching_order(std::uint64_t seed, std::uint64_t round, std::size_t n) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  Rng rng = Rng(seed).fork("matching").fork(round);
  rng.shuffle(std::span(order));
  return order;
}

std::optional<Match> matching_partner(std::uint64_t seed, std::uint64_t round, const View& view,
                                      PeerId self) {
  const std::optional<std::size_t> rank = view.rank_of(self);
  if (!rank) return std::nullopt;
  const std::vector<std::size_t> order = matching_order(seed, round, view.size());
  const auto found = std::ranges::find(order, *rank);
  const std::size_t place = static_cast<std::size_t>(found - order.begin());
  const std::size_t other = place ^ 1;
  if (other >= order.size()) return std::nullopt;
  return Match{.partner = view.peers()[order[other]], .initiates = place < other};
}

std::optional<PeerId> uniform_partner(const View& view, PeerId self, Rng& rng) {
  const std::vector<PeerId>& peers = view.peers();
  const auto own = std::ranges::lower_bound(peers, self);
  const bool inside = own != peers.end() && *own == self;
  const std::size_t others = peers.size() - (inside ? 1 : 0);
  if (others == 0) return std::nullopt;
  std::size_t drawn = rng.below(others);
  if (inside && drawn >= static_cast<std::size_t>(own - peers.begin())) ++drawn;
  return peers[drawn];
}

}  // namespace gv
