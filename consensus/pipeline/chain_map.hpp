// Maps stages to peers by a pure function that every peer computes alike.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.hpp"

namespace gv {

/// One peer that can take part.
struct StageCarrier {
  PeerId peer{};
  double speed = 0;                   ///< Relative to the others; 0: not known.
  std::vector<std::uint32_t> stages;  ///< The stages it carries, sorted; none for a newcomer.
  std::vector<std::uint32_t> copies;  ///< Other stages whose state it has.
};

/// Returns for each of `carriers` the stages it carries from now on, sorted, at least one each.
/// Every stage has a carrier. `carriers` are sorted by id and not empty; `stage_seconds` is the
/// time of a micro-batch in each stage at speed 1.
///
/// A peer that carries a stage keeps it, so that no state is sent without need. A stage that has
/// lost all its carriers goes to a newcomer, or to a peer that its own stage can spare, or, if
/// there are fewer peers than stages, to a peer that carries another stage too; a peer with a copy
/// comes before a neighbour. A newcomer takes a stage from a peer with several; otherwise it joins
/// the slowest stage, by a stage's work over the speeds of all its carriers. At last one peer may
/// move to the slowest stage, or one of its peers may swap stages with a peer of another, if this
/// lowers the slowest stage's time by more than `worth_changing`. So peers move only for a real
/// gain, one change at a time, and while speeds stay the same nothing moves back and forth.
std::vector<std::vector<std::uint32_t>> map_stages(std::span<const StageCarrier> carriers,
                                                   std::span<const double> stage_seconds);

}  // namespace gv
