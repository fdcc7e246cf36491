// A peer's place in a group that carries a stage of a pipeline.
#pragma once

#include <cstddef>
#include <vector>

namespace gv {

/// The members of a group make each pass of a stage together: each computes its own grains of the
/// layers, and they sum.
struct GroupPlace {
  /// The speeds of all members, which get grains in proportion to these.
  std::vector<double> speeds = {1};
  std::size_t own = 0;  ///< Our number among them.

  bool is_first() const { return own == 0; }
  friend bool operator==(const GroupPlace&, const GroupPlace&) = default;
};

}  // namespace gv
