// A peer's place in a group that carries a stage of a pipeline.
#pragma once

#include <cstddef>

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

  bool is_first() const { return own == 0; }
  friend bool operator==(const GroupPlace&, const GroupPlace&) = default;
};

}  // namespace gv
