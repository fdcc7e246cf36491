// Which peer carries which stages: a function of who is there that every peer computes alike.
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
  std::vector<std::uint32_t> stages;  ///< It carries, sorted; a newcomer none.
  std::vector<std::uint32_t> copies;  ///< Of other stages whose state it has.
};

/// stages_of[i]: what carriers[i] carries from now on, sorted, at least one stage each. Every stage
/// has a carrier. `carriers` are sorted by id and not empty; `stage_seconds` is what a micro-batch
/// takes in each stage at speed 1.
///
/// Whoever has a stage keeps it, so that nothing is sent without need. A stage that nobody has left
/// goes to a newcomer, or to a peer that its own stage can spare, or, where there are fewer peers
/// than stages, to one that carries another beside it: who has a copy before a neighbour. Newcomers
/// take a stage from a peer that has several, or else join the one that is slowest, the work of a
/// stage over the speeds of all its carriers. At last one peer may go over to the slowest stage, or
/// one of it exchange stages with a peer of another, if the time of the slowest falls by more than
/// `worth_changing` with that: so peers move only for something, one change at a time. As long as
/// speeds stay, nothing goes to and fro.
std::vector<std::vector<std::uint32_t>> map_stages(std::span<const StageCarrier> carriers,
                                                   std::span<const double> stage_seconds);

}  // namespace gv
