// Forms groups of peers that carry stages together, by pure functions, so that all form the same.
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
  std::vector<std::uint32_t> group_of;              ///< By rank.
};

/// How many peers make a group.
struct GroupSize {
  std::size_t least = 1;  ///< So that what a member holds fits its memory; at most `most`.
  std::size_t most = 1;   ///< Unless fewer groups are needed for each to have `least`.

  /// The most members that a group can come to have.
  std::size_t limit() const { return std::max(most, 2 * least - 1); }
};

/// stages[r] are the stages that rank r carries, sorted, and sizes[r] is that of its group, which
/// depends on these stages alone. Only peers that carry the same stages are in one group; they form
/// as few groups as possible, whose sizes differ by one at most, of `most` peers each. If such
/// groups had fewer than `least` they form fewer and larger ones. All are one group, too small, if
/// they are fewer than `least`. Groups are numbered by their first ranks, so groups of one peer
/// each have the numbers of the ranks.
PeerGroups peer_groups(std::span<const std::vector<std::uint32_t>> stages,
                       std::span<const GroupSize> sizes);

/// The slices of each member of a group: all of them, in its order, in proportion to speeds, at
/// least one and at most `most` for each.
std::vector<Range> member_slices(std::span<const double> speeds, std::size_t slices,
                                 std::size_t most);

}  // namespace gv
