// Searches for the fastest way to share the work of all layers among peers of different speeds.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "consensus/split/layer_costs.hpp"
#include "consensus/split/split_site.hpp"

namespace gv {

/// Which plans may be chosen.
struct SplitChoice {
  bool may_split_layers = true;  ///< True if `model` and `rows` are allowed.
  bool may_use_factors = true;
  bool one_group = false;  ///< True if the same peers must share all layers of a stage.
  /// True if every peer must carry a stage, in plans with stages or with `group`.
  bool all_peers = false;
  /// If above 0, every plan is a pipeline that can run with this value of the setting
  /// `pipeline.group`, and all layers of a stage are shared by slices. If above 1, several peers
  /// share at least one stage.
  std::size_t group = 0;
  std::size_t stages_min = 1;
  std::size_t stages_max = 1;
};

/// A peer that has to carry a certain stage.
struct SplitPin {
  std::size_t peer = 0;
  /// The stage's number in the plan or, with SplitQuestion::pins_name_layers, a layer of the stage.
  std::size_t at = 0;
};

struct SplitQuestion {
  std::vector<SplitLayer> layers;
  SplitSite site;
  std::size_t samples = 1;  ///< Samples of all peers together in a step.
  /// Numbers of micro-batches to try for plans with stages. Each must divide `samples`.
  std::vector<std::size_t> micro_batches;
  /// Bytes for each parameter, its gradients and its part of the optimiser's state.
  double bytes_per_weight = 16;
  double bytes_per_sliced_weight = 16;  ///< Bytes for each parameter of layers shared by slices.
  /// Groups that may share a layer of a plan without stages. If empty, candidate_groups() is used.
  std::vector<SplitGroup> groups;
  /// The peers pinned to stages. A pinned peer shares the work of each layer of its stage. Pins
  /// rule out plans in which a pinned peer carries another stage or none. They also rule out plans
  /// without stages, unless the site has a single peer.
  std::vector<SplitPin> pins = {};
  bool pins_name_layers = false;
};

/// How a layer is shared in a plan.
struct PlannedLayer {
  SplitState state;                ///< `group` is an index in SplitPlan::groups.
  SplitCost cost;                  ///< The cost, including the exchange that brings the inputs.
  std::vector<SplitShare> shares;  ///< One share for each peer of the group.
};

/// A stage: layers [first, last) on peers that carry no other stage.
struct SplitStage {
  std::size_t first = 0;
  std::size_t last = 0;
  double busy_s = 0;          ///< Seconds for which the stage's slowest peer is busy in a step.
  double transfer_s = 0;      ///< Seconds to send a micro-batch to the next stage, one way.
  double transfer_bytes = 0;  ///< Bytes sent to one receiver in a step, one way.
  std::size_t peers = 0;      ///< Number of peers that carry the stage.
  /// Number of peers in a block, all of which receive the stage's inputs.
  std::size_t members = 1;
};

struct SplitPlan {
  double seconds = 0;    ///< Seconds of a step.
  double waiting_s = 0;  ///< Seconds of the step in which the busiest stage waits for the others.
  std::size_t micro_batches = 1;
  std::size_t group = 0;  ///< The SplitChoice::group for which the plan was made.
  std::vector<SplitGroup> groups;
  std::vector<PlannedLayer> layers;
  std::vector<SplitStage> stages;
  std::vector<double> memory_bytes;  ///< Memory that each peer of the site needs.

  /// The summed cost of the busiest stage's layers. The other stages work at the same time.
  SplitCost cost() const;
  double bytes() const;     ///< Bytes that the busiest peer of the busiest stage sends in a step.
  bool has_groups() const;  ///< True if some stage is shared by slices among several peers.
  bool uses(std::size_t peer) const;
};

/// The fastest plans, at most two, with the fastest first. Empty if none fits the memory.
///
/// The search is dynamic programming over states. It keeps the candidates that no two others beat
/// in time and in each peer's memory. It is exact for a chain of layers, apart from two limits.
/// First, if one state has more than 64 such candidates, the slowest are dropped. Second, with more
/// than four peers, a stage gets only peers that are adjacent in one of two orders: by clusters, or
/// by speed. With pins, each of these becomes two orders. In one, pinned peers occupy the same
/// places as before, but are sorted by their stages. In the other, they come first, with one other
/// peer for each earlier stage or layer without a pin. A peer that only slows the others is left
/// out, since no group that contains it is chosen.
///
/// A stage's busy time is the sum of its layers' costs in a step. With m micro-batches, a step
/// takes the longest busy time (or transfer, if that is longer) plus 1/m of each of the other busy
/// times and transfers, because the pipeline has to fill and drain.
std::vector<SplitPlan> best_plans(const SplitQuestion& question, const SplitChoice& choice);

/// Adds a plan to `best` unless a plan in `best` shares all layers in the same way. Then keeps only
/// the two fastest.
void keep_plan(std::vector<SplitPlan>& best, SplitPlan plan);

/// The plan without stages in which each layer has the given state, together with its costs.
SplitPlan plan_of(const SplitQuestion& question, std::span<const SplitGroup> groups,
                  std::span<const SplitState> states);

}  // namespace gv
