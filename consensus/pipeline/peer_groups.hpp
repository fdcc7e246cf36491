// Forms groups of peers that carry stages together, by pure functions, so all peers agree on them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/range.hpp"

namespace gv {

/// Each group is one worker of a schedule.
struct PeerGroups {
  std::vector<std::vector<std::uint32_t>> members;  ///< Ranks in each group, ascending.
  std::vector<std::uint32_t> group_of;              ///< The group of each rank.
};

/// Bounds on the number of peers in a group.
struct GroupSize {
  std::size_t least = 1;  ///< The least for which a member's part fits into its memory; at most
                          ///< `most`.
  std::size_t most = 1;   ///< Exceeded only if groups of this size would have fewer than `least`
                          ///< peers.

  /// The most members that a group can have.
  std::size_t limit() const { return std::max(most, 2 * least - 1); }
};

/// stages[r] are the stages that rank r carries, sorted, and sizes[r] gives the bounds for the
/// group of rank r, which depend only on these stages. Only peers that carry the same stages share
/// a group. They form as few groups as possible of at most `most` peers each, whose sizes differ by
/// at most one. If such groups had fewer than `least` peers, they form fewer and larger ones. If
/// there are fewer than `least` peers in all, they are one group that is too small. Groups are
/// numbered by their first ranks, so groups of one peer each have the numbers of the ranks.
PeerGroups peer_groups(std::span<const std::vector<std::uint32_t>> stages,
                       std::span<const GroupSize> sizes);

/// Numbers groups by their first ranks; each of the ranks is in one of them.
PeerGroups numbered(std::vector<std::vector<std::uint32_t>> members, std::size_t ranks);

/// The slices of each member of a group: together all slices, in the order of members, in
/// proportion to speeds, at least one and at most `most` for each.
std::vector<Range> member_slices(std::span<const double> speeds, std::size_t slices,
                                 std::size_t most);

}  // namespace gv
