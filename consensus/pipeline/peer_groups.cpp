// Forms groups of the peers that carry the same stages.
#include "consensus/pipeline/peer_groups.hpp"

#include <algorithm>
#include <map>

#include "base/check.hpp"

namespace gv {

PeerGroups peer_groups(std::span<const std::vector<std::uint32_t>> stages,
                       std::span<const std::size_t> most) {
  check(most.size() == stages.size(), "every rank may be in a group");
  std::map<std::vector<std::uint32_t>, std::vector<std::uint32_t>> alike;
  for (std::uint32_t rank = 0; rank < stages.size(); ++rank) alike[stages[rank]].push_back(rank);
  PeerGroups groups;
  for (const auto& [carried, ranks] : alike) {
    const std::size_t size = most[ranks.front()];
    const std::size_t count = (ranks.size() + size - 1) / size;
    for (std::size_t g = 0; g < count; ++g) {
      const auto begin = static_cast<std::ptrdiff_t>(g * ranks.size() / count);
      const auto end = static_cast<std::ptrdiff_t>((g + 1) * ranks.size() / count);
      groups.members.emplace_back(ranks.begin() + begin, ranks.begin() + end);
    }
  }
  std::ranges::sort(groups.members);
  groups.group_of.resize(stages.size());
  for (std::uint32_t g = 0; g < groups.members.size(); ++g) {
    for (const std::uint32_t rank : groups.members[g]) groups.group_of[rank] = g;
  }
  return groups;
}

}  // namespace gv
