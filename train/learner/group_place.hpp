// A peer's place in a group that carries a stage of a pipeline, and what such a group sums.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/range.hpp"

namespace gv {

/// The layers of a stage that groups share are cut into this many slices, whatever the group's
/// size, so that a slice means the same to all groups. No group can have more members. Halves,
/// thirds, quarters and sixths of a stage are equal.
inline constexpr std::size_t slices_of_stage = 24;

/// The members of a group make each pass of a stage together: each computes its own slices of the
/// layers, and then all sum.
struct GroupPlace {
  Range slices;             ///< Our slices.
  std::size_t own = 0;      ///< Our number among the members.
  std::size_t members = 1;  ///< The number of members.
  /// The slices with which members begin, ascending, without the first slice of the stage.
  std::vector<std::size_t> cuts = {};

  bool is_first() const { return own == 0; }
  friend bool operator==(const GroupPlace&, const GroupPlace&) = default;
};

/// The range of an array that a member needs, where `by_slice` has the range that each slice needs:
/// from the beginning for its first slice to the end for its last one.
inline Range range_of_member(std::span<const Range> by_slice, std::span<const std::size_t> cuts,
                             std::size_t member) {
  const std::size_t first = member == 0 ? 0 : cuts[member - 1];
  const std::size_t end = member == cuts.size() ? by_slice.size() : cuts[member];
  return {by_slice[first].begin, std::max(by_slice[first].begin, by_slice[end - 1].end)};
}

/// A sum that the members of a group make in a pass, or what the first member deals out to all.
struct GroupSum {
  std::size_t always = 0;  ///< Floats that every group sums, or that each member is dealt.
  /// Floats that a group sums besides for each of its cuts, by the number of the slice that begins
  /// there. Empty: none, wherever its cuts are.
  std::vector<std::size_t> at_cut = {};
  /// True for statistics of a whole batch: the sum is as long for any number of samples, and tests
  /// of the model, which use running statistics, do without it.
  bool is_of_batch = false;
  /// If not empty, nothing is summed, and each member gets a part from the first one: a range of an
  /// array, here by slice (range_of_member), and then `always` floats.
  std::vector<Range> dealt = {};

  /// The length of the sum in a group with these cuts. It is never 0.
  std::size_t size(std::span<const std::size_t> cuts) const {
    if (!dealt.empty()) return parts(cuts).back().end;
    std::size_t floats = always;
    for (const std::size_t cut : cuts) floats += cut < at_cut.size() ? at_cut[cut] : 0;
    return std::max<std::size_t>(1, floats);
  }
  /// The places of the members' parts, if they are dealt out.
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
  /// Its length in a group with all cuts. Fewer members may be dealt more, where the parts of
  /// slices leave gaps.
  std::size_t most() const {
    std::size_t floats = dealt.empty() ? always : 0;
    for (const std::size_t more : at_cut) floats += more;
    for (const Range& range : dealt) floats += std::max<std::size_t>(1, range.size() + always);
    return floats;
  }
  /// The same sum for that many samples in place of one. Statistics of a batch stay as long.
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

/// Those of a stage's forward sums that tests of the model make as well.
inline std::vector<GroupSum> sums_in_tests(std::vector<GroupSum> forward) {
  std::erase_if(forward, [](const GroupSum& sum) { return sum.is_of_batch; });
  return forward;
}

}  // namespace gv
