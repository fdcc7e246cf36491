// A peer's place in a group that carries a stage of a pipeline, and the sums of such a group.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/range.hpp"

namespace gv {

/// The layers of a stage that groups share are cut into this many slices. The number does not
/// depend on the group's size, so a slice means the same to all groups. A group cannot have more
/// members than slices. The number is divisible by 2, 3, 4 and 6, so groups of these sizes get
/// equal shares.
inline constexpr std::size_t slices_of_stage = 24;

/// One member's place in a group. The members make each pass through a stage together: each
/// computes its own slices of the layers, and then the members sum their results.
struct GroupPlace {
  Range slices;             ///< The slices of the stage that we compute.
  std::size_t own = 0;      ///< Our index among the members.
  std::size_t members = 1;  ///< Number of peers in the group.
  /// The slices at which members' shares begin, ascending, without the first slice of the stage.
  std::vector<std::size_t> cuts = {};

  bool is_first() const { return own == 0; }
  friend bool operator==(const GroupPlace&, const GroupPlace&) = default;
};

/// Returns the range of an array that a member needs. `by_slice` has the range that each slice
/// needs. The result runs from the beginning of the range for the member's first slice to the end
/// of the range for its last slice.
inline Range range_of_member(std::span<const Range> by_slice, std::span<const std::size_t> cuts,
                             std::size_t member) {
  const std::size_t first = member == 0 ? 0 : cuts[member - 1];
  const std::size_t end = member == cuts.size() ? by_slice.size() : cuts[member];
  return {by_slice[first].begin, std::max(by_slice[first].begin, by_slice[end - 1].end)};
}

/// A sum that the members of a group make in a pass, or data that the first member deals out to
/// all.
struct GroupSum {
  std::size_t always = 0;  ///< Floats in the sum of every group, or in the part that each member is
                           ///< dealt.
  /// Floats that a group also sums for each of its cuts, by the index of the slice that begins at
  /// the cut. If empty, cuts add no floats.
  std::vector<std::size_t> at_cut = {};
  /// True for statistics of a whole batch. The sum then has the same length for any number of
  /// samples. Tests of the model skip this sum, because they use running statistics.
  bool is_of_batch = false;
  /// If not empty, nothing is summed, and the first member deals a part to each member: a range of
  /// an array, given here by slice (range_of_member), and then `always` floats.
  std::vector<Range> dealt = {};

  /// The number of floats in the sum of a group with these cuts. It is never 0.
  std::size_t size(std::span<const std::size_t> cuts) const {
    if (!dealt.empty()) return parts(cuts).back().end;
    std::size_t floats = always;
    for (const std::size_t cut : cuts) floats += cut < at_cut.size() ? at_cut[cut] : 0;
    return std::max<std::size_t>(1, floats);
  }
  /// The places of the parts that are dealt out to the members, in order.
  std::vector<Range> parts(std::span<const std::size_t> cuts) const {
    std::vector<Range> parts;
    std::size_t end = 0;
    for (std::size_t member = 0; member <= cuts.size(); ++member) {
      const std::size_t begin = end;
      end += std::max<std::size_t>(1, range_of_member(dealt, cuts, member).size() + always);
      parts.push_back({begin, end});
    }
    return parts;
  }
  /// The number of floats in the sum of a group that is cut at every slice. If parts are dealt out,
  /// a smaller group may need more, because a member's range includes the gaps between the ranges
  /// of its slices.
  std::size_t most() const {
    std::size_t floats = dealt.empty() ? always : 0;
    for (const std::size_t more : at_cut) floats += more;
    for (const Range& range : dealt) floats += std::max<std::size_t>(1, range.size() + always);
    return floats;
  }
  /// The same sum for `samples` samples instead of one. Statistics of a batch keep their length.
  GroupSum times(std::size_t samples) const {
    GroupSum sum = *this;
    if (is_of_batch) return sum;
    sum.always *= samples;
    for (std::size_t& floats : sum.at_cut) floats *= samples;
    for (Range& range : sum.dealt) range = {range.begin * samples, range.end * samples};
    return sum;
  }
  friend bool operator==(const GroupSum&, const GroupSum&) = default;
};

/// The forward sums of a stage that are also made in tests of the model.
inline std::vector<GroupSum> sums_in_tests(std::vector<GroupSum> forward) {
  std::erase_if(forward, [](const GroupSum& sum) { return sum.is_of_batch; });
  return forward;
}

}  // namespace gv
