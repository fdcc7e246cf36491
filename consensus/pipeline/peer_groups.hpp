// Forms groups of peers that carry stages together, by pure functions, so all peers agree on them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/range.hpp"

namespace gv {

/// Groups of peers that carry the same stages. Each group is one worker of a schedule.
struct PeerGroups {
  std::vector<std::vector<std::uint32_t>> members;  ///< Ranks in each group, ascending.
  std::vector<std::uint32_t> group_of;              ///< The group of each rank.
};

/// Bounds on the number of peers in a group.
struct GroupSize {
  /// The smallest size at which each member's part fits into its memory. At most `most`.
  std::size_t least = 1;
  /// The usual limit. Groups exceed it only if some would otherwise have fewer than `least` peers.
  std::size_t most = 1;

  /// The largest size that a group can have.
  std::size_t limit() const { return std::max(most, 2 * least - 1); }
};

/// stages[r] are the stages that rank r carries, sorted. sizes[r] are the bounds for the group of
/// rank r, which depend only on these stages. Only peers that carry the same stages share a group.
/// These peers form as few groups as possible of at most `most` peers each, and the sizes differ by
/// at most one. If some of these groups would have fewer than `least` peers, the peers form fewer
/// and larger groups. If there are fewer than `least` such peers in all, they form one group that
/// is too small. Groups are numbered in the order of their first ranks. So if every group has one
/// peer, group numbers equal ranks.
PeerGroups peer_groups(std::span<const std::vector<std::uint32_t>> stages,
                       std::span<const GroupSize> sizes);

/// Numbers groups in the order of their first ranks. Every rank below `ranks` must be in exactly
/// one group.
PeerGroups numbered(std::vector<std::vector<std::uint32_t>> members, std::size_t ranks);

/// Divides all slices among the members of a group, in the order of members and in proportion to
/// their speeds. Each member gets at least one slice and at most `most`.
std::vector<Range> member_slices(std::span<const double> speeds, std::size_t slices,
                                 std::size_t most);

}  // namespace gv
