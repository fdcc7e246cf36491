// Forms groups of peers that carry stages together, by a pure function, so that all form the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gv {

/// Each group is one worker of a schedule.
struct PeerGroups {
  std::vector<std::vector<std::uint32_t>> members;  ///< Ranks in each group, ascending.
  std::vector<std::uint32_t> group_of;              ///< By rank.
};

/// stages[r] are the stages that rank r carries, sorted, and most[r] is the most peers in its
/// group, which depends on these stages alone. Only peers that carry the same stages are in one
/// group; they form as few groups as possible, whose sizes differ by one at most. Groups are
/// numbered by their first ranks, so groups of one peer each have the numbers of the ranks.
PeerGroups peer_groups(std::span<const std::vector<std::uint32_t>> stages,
                       std::span<const std::size_t> most);

}  // namespace gv
