// Forms groups of the peers that carry the same stages.
#include "consensus/pipeline/peer_groups.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.hpp"
#include "base/shares.hpp"

namespace gv {

PeerGroups peer_groups(std::span<const std::vector<std::uint32_t>> stages,
                       std::span<const GroupSize> sizes) {
  check(sizes.size() == stages.size(), "every rank may be in a group");
  std::map<std::vector<std::uint32_t>, std::vector<std::uint32_t>> alike;
  for (std::uint32_t rank = 0; rank < stages.size(); ++rank) alike[stages[rank]].push_back(rank);
  std::vector<std::vector<std::uint32_t>> members;
  for (const auto& [carried, ranks] : alike) {
    const GroupSize& size = sizes[ranks.front()];
    const std::size_t count = std::min((ranks.size() + size.most - 1) / size.most,
                                       std::max<std::size_t>(1, ranks.size() / size.least));
    for (std::size_t g = 0; g < count; ++g) {
      const auto begin = static_cast<std::ptrdiff_t>(g * ranks.size() / count);
      const auto end = static_cast<std::ptrdiff_t>((g + 1) * ranks.size() / count);
      members.emplace_back(ranks.begin() + begin, ranks.begin() + end);
    }
  }
  return numbered(std::move(members), stages.size());
}

PeerGroups numbered(std::vector<std::vector<std::uint32_t>> members, std::size_t ranks) {
  PeerGroups groups{.members = std::move(members), .group_of = std::vector<std::uint32_t>(ranks)};
  std::ranges::sort(groups.members);
  for (std::uint32_t g = 0; g < groups.members.size(); ++g) {
    for (const std::uint32_t rank : groups.members[g]) groups.group_of[rank] = g;
  }
  return groups;
}

std::vector<Range> member_slices(std::span<const double> speeds, std::size_t slices,
                                 std::size_t most) {
  std::vector<Range> ranges;
  std::size_t begin = 0;
  for (const std::uint32_t share :
       batch_shares(speeds, static_cast<std::uint32_t>(slices), static_cast<std::uint32_t>(most))) {
    ranges.push_back({begin, begin + share});
    begin += share;
  }
  return ranges;
}

}  // namespace gv
