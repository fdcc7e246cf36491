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
  bool one_group = false;  ///< All layers of a stage are shared by the same peers.
  bool all_peers = false;  ///< In plans with stages or with `group` every peer carries a stage.
  /// Above 0: a pipeline as it runs with `pipeline.group` of this number. All layers of a stage are
  /// shared by slices, above 1 in one stage at least by several peers.
  std::size_t group = 0;
  std::size_t stages_min = 1;
  std::size_t stages_max = 1;
};

/// A peer that has to carry a certain stage.
struct SplitPin {
  std::size_t peer = 0;
  /// The stage's number in the plan; with SplitQuestion::pins_name_layers a layer of the stage.
  std::size_t at = 0;
};

struct SplitQuestion {
  std::vector<SplitLayer> layers;
  SplitSite site;
  std::size_t samples = 1;  ///< Samples in a step of all peers.
  /// Numbers of micro-batches to try for plans with stages; each divides `samples`.
  std::vector<std::size_t> micro_batches;
  /// Bytes for each parameter, its gradients and its part of the optimiser's state.
  double bytes_per_weight = 16;
  double bytes_per_sliced_weight = 16;  ///< The same in layers that are shared by slices.
  /// Groups that may share a layer of a plan without stages. Empty: candidate_groups().
  std::vector<SplitGroup> groups;
  /// The stages of pinned peers, which take part in each of their layers. Plans without stages and
  /// plans in which a pinned peer carries another stage, or none, are left out.
  std::vector<SplitPin> pins = {};
  bool pins_name_layers = false;
};

/// How a layer is shared in a plan.
struct PlannedLayer {
  SplitState state;                ///< `group` is an index in SplitPlan::groups.
  SplitCost cost;                  ///< Includes the exchange that brings its inputs.
  std::vector<SplitShare> shares;  ///< One for each peer of the group.
};

/// A stage: layers [first, last) on peers that carry no other stage.
struct SplitStage {
  std::size_t first = 0;
  std::size_t last = 0;
  double busy_s = 0;          ///< Time for which its slowest peer is busy in a step.
  double transfer_s = 0;      ///< Time of a micro-batch to the next stage, one way.
  double transfer_bytes = 0;  ///< Bytes of a step to one receiver, one way.
  std::size_t peers = 0;      ///< Number of peers that carry the stage.
  std::size_t members = 1;    ///< Number of peers that all get what comes in.
};

struct SplitPlan {
  double seconds = 0;    ///< Seconds of a step.
  double waiting_s = 0;  ///< The part of the step in which the busiest stage waits for the others.
  std::size_t micro_batches = 1;
  std::size_t group = 0;  ///< As in SplitChoice.
  std::vector<SplitGroup> groups;
  std::vector<PlannedLayer> layers;
  std::vector<SplitStage> stages;
  std::vector<double> memory_bytes;  ///< Memory of each peer of the site.

  /// The sum over the busiest stage's layers; the other stages work at the same time.
  SplitCost cost() const;
  double bytes() const;     ///< Sent in a step by the busiest peer of the busiest stage.
  bool has_groups() const;  ///< True if some stage is shared by slices among several peers.
  bool uses(std::size_t peer) const;
};

/// The plans with the least seconds, the fastest first; at most two. Empty if none fits the memory.
///
/// Exact for a chain of layers (dynamic programming over states, which keeps two candidates that
/// no two others beat in time and in each peer's memory), but for two bounds: of more than 64 such
/// candidates for one state the slowest are dropped, and with more than four peers stages are given
/// to those that follow each other in one of two orders, by clusters or by speed. With pins each of
/// these becomes two orders, in which pinned peers follow each other by their stages: in the places
/// that they had, and with one other before them for each stage or layer without a pin. A peer that
/// only slows the others is left out, since its group is not chosen.
///
/// A stage's busy time b is the sum of its layers' costs in a step. With m micro-batches a step
/// takes the longest b, or transfer if that is longer, plus 1/m of each of the others, which wait
/// for it at both ends.
std::vector<SplitPlan> best_plans(const SplitQuestion& question, const SplitChoice& choice);

/// Adds a plan to the two with the least seconds, unless one of them shares all layers alike. Then
/// that one stays.
void keep_plan(std::vector<SplitPlan>& best, SplitPlan plan);

/// The cost of a given plan without stages: one state for each layer.
SplitPlan plan_of(const SplitQuestion& question, std::span<const SplitGroup> groups,
                  std::span<const SplitState> states);

}  // namespace gv
