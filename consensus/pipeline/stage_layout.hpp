// Chooses stages and groups for peers of unlike speeds by the predicted time of a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "consensus/pipeline/peer_groups.hpp"
#include "consensus/pipeline/router.hpp"
#include "consensus/pipeline/schedule.hpp"
#include "consensus/split/layer_costs.hpp"
#include "consensus/split/split_site.hpp"

namespace gv {

/// With more, the search would take seconds, and meanwhile its peer would answer no messages.
inline constexpr std::size_t planned_peers_max = 8;
inline constexpr std::size_t planned_stages_max = 8;
inline constexpr std::size_t planned_micro_batches_max = 64;
/// The most assignments of a layout, because a message has room for no more.
inline constexpr std::size_t assignments_max = 1024;

/// What a step costs, apart from the peers.
struct LayoutCosts {
  /// The stages. A micro-batch counts as one sample, so figures are for a micro-batch.
  std::vector<SplitLayer> stages;
  PipelineKind kind = PipelineKind::one_f_one_b;  ///< A synchronous one, but not chimera.
  RouterKind router = RouterKind::fixed;
  std::size_t micro_batches = 1;
  std::size_t ahead = 0;
  std::size_t group = 1;  ///< The most peers in a group.
};

/// Which peers carry which stages, and in which groups.
struct StageLayout {
  std::vector<std::vector<std::uint32_t>> stages;  ///< The stages of each rank, sorted.
  PeerGroups groups;

  friend bool operator==(const StageLayout& a, const StageLayout& b) {
    return a.stages == b.stages && a.groups.members == b.groups.members;
  }
};

/// The predicted seconds of a step: the schedule on a clock, with the exchanges inside groups and
/// between stages, and the longest sum of a peer's gradients at its end. Peer i of the site has
/// rank i, and its operations a second are the micro-batches that it could take through the whole
/// model.
double predicted_step(const StageLayout& layout, const LayoutCosts& costs, const SplitSite& site);

/// The layout with the shortest predicted step, in which each peer carries a stage. The candidates
/// are the plans of best_plans() for each number of stages of peers and each size of groups up to
/// `costs.group`, improved by peers that join others or swap with them, as long as that makes the
/// step shorter; after a number of predictions that take about half a second, the best one so far
/// is returned. Peers whose speeds differ by less than `worth_changing` count as equal in
/// best_plans(), and take the places of `present` in which most stages stay where they are. A rank
/// with a pin carries that stage in every candidate; `pins` may be empty if no rank has one.
/// Returns nullopt if there are too many peers or stages, or if each plan would need more
/// micro-batches for its replicas or more than `assignments_max` assignments.
std::optional<StageLayout> best_layout(const StageLayout& present, const LayoutCosts& costs,
                                       const SplitSite& site,
                                       std::span<const std::optional<std::uint32_t>> pins = {});

}  // namespace gv
