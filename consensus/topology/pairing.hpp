// Pairs peers by pure functions of (run seed, round, view), so that no negotiation is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/rng.hpp"
#include "base/view.hpp"
#include "consensus/topology/topology.hpp"

namespace gv {

/// One peer's place in a round's matching.
struct Match {
  PeerId partner{};
  bool initiates = false;  ///< True for exactly one of the two: the first in the shuffled order.
};

/// The positions 0 to n-1 of a view in the order drawn for a round. First and second are a pair,
/// third and fourth, and so on; of an odd number the last has no partner.
std::vector<std::size_t> matching_order(std::uint64_t seed, std::uint64_t round, std::size_t n);

/// The partner of `self` in round `round`: the view is shuffled with a generator seeded by (seed,
/// round) and cut into pairs. Empty if `self` has no partner, is alone, or is not in the view.
std::optional<Match> matching_partner(std::uint64_t seed, std::uint64_t round, const View& view,
                                      PeerId self);

/// A uniformly drawn member of the view other than `self`. Empty when there is none.
std::optional<PeerId> uniform_partner(const View& view, PeerId self, Rng& rng);

}  // namespace gv
