// Assigns stages to peers by a pure function, so that every peer computes the same map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.hpp"

namespace gv {

/// A peer that can carry stages.
struct StageCarrier {
  PeerId peer{};
  double speed = 0;                       ///< Speed relative to the other peers; 0 if not known.
  std::vector<std::uint32_t> stages;      ///< The stages that the peer carries, sorted. Empty for a
                                          ///< newcomer.
  std::vector<std::uint32_t> copies;      ///< Other stages whose state the peer has.
  std::optional<std::uint32_t> pin = {};  ///< The stage to which the peer is pinned, if any.
};

/// Returns for each of `carriers` the stages that it will carry: sorted, at least one each. Every
/// stage has a carrier. `carriers` must be sorted by id and not be empty; `stage_seconds` is the
/// time of a micro-batch in each stage at speed 1.
///
/// A peer that carries a stage keeps it, so that no state is sent unnecessarily. A stage that has
/// lost all carriers goes to a newcomer, or else to a peer that its own stage can spare. If there
/// is no such peer, another peer carries it in addition to its own stages. Of these peers, one with
/// a copy of the stage is preferred to one that carries a neighbouring stage. A newcomer takes a
/// stage from a peer with several. If there is no such peer, it joins the slowest stage, judged by
/// the stage's work divided by the summed speeds of its carriers. Finally, one peer may move to the
/// slowest stage, or a peer of the slowest stage may swap with a peer of another stage. This
/// happens only if it shortens the slowest stage's time by more than the fraction `worth_changing`.
/// So peers move only for a real gain, one change at a time, and none moves back and forth while
/// speeds stay the same. With `balances = false`, this last change is left out.
///
/// `least` holds the number of carriers that each stage needs, because fewer would not have enough
/// memory. If it is empty, each stage needs one. Newcomers join a stage that lacks carriers before
/// any other, and a stage with more than it needs gives some to one that lacks them. Apart from
/// pins, a peer leaves a stage only if enough carriers remain or another peer takes its place.
///
/// A pinned peer gets its stage before anything else is decided. If it did not carry that stage, it
/// gives up all others. A second peer that carries the pinned stage among several stages then gives
/// up the pinned stage. With `balances`, the second peer gives it up even if the pinned peer
/// already carried it. A pinned peer takes further stages only if there are too few other peers,
/// and it never moves for balance.
std::vector<std::vector<std::uint32_t>> map_stages(std::span<const StageCarrier> carriers,
                                                   std::span<const double> stage_seconds,
                                                   bool balances = true,
                                                   std::span<const std::size_t> least = {});

}  // namespace gv
