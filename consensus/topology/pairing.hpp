// Pairs peers by pure functions of (run seed, round, view), so that peers need not negotiate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/rng.hpp"
#include "base/view.hpp"
#include "consensus/topology/topology.hpp"

namespace gv {

/// The partner of a peer in a round's matching.
struct Match {
  PeerId partner{};
  /// True for exactly one peer of a pair: the first in the shuffled order.
  bool initiates = false;
};

/// The positions 0 to n-1 of a view in a round's random order. The first and second position form a
/// pair, the third and fourth the next, and so on. If n is odd, the last has no partner.
std::vector<std::size_t> matching_order(std::uint64_t seed, std::uint64_t round, std::size_t n);

/// The partner of `self` in a round. The view is shuffled with a generator seeded by (seed, round)
/// and cut into pairs. Returns nullopt if `self` has no partner, is alone, or is not in the view.
std::optional<Match> matching_partner(std::uint64_t seed, std::uint64_t round, const View& view,
                                      PeerId self);

/// A random member of the view other than `self`, with equal chances for all. Returns nullopt if
/// there is none.
std::optional<PeerId> uniform_partner(const View& view, PeerId self, Rng& rng);

}  // namespace gv
