// Chooses stages and groups for peers of different speeds by the predicted time of a step.
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
#include "consensus/split/search_budget.hpp"
#include "consensus/split/split_site.hpp"

namespace gv {

/// Limits of the search. With more peers, stages or micro-batches, too few of the possible layouts
/// would be predicted within `layout_steps_max`.
inline constexpr std::size_t planned_peers_max = 8;
inline constexpr std::size_t planned_stages_max = 8;
inline constexpr std::size_t planned_micro_batches_max = 64;
/// The most elementary steps of a search for a layout (SearchBudget), which take about 50 ms. While
/// a peer searches, it answers no messages, and the others must not take it for dead.
inline constexpr std::uint64_t layout_steps_max = 5'000'000;
/// The largest number of assignments in a message, and in a layout that the search considers. The
/// search counts each pair of a slice and a stage. A message joins consecutive slices, so it has
/// room for every layout that is found.
inline constexpr std::size_t assignments_max = 1024;

/// The costs of a step, without the speeds and links of the peers.
struct LayoutCosts {
  /// The costs of each stage. A micro-batch counts as one sample, so all figures are for one
  /// micro-batch.
  std::vector<SplitLayer> stages;
  PipelineKind kind = PipelineKind::one_f_one_b;  ///< A synchronous kind other than chimera.
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

/// The predicted seconds of a step. Simulates the schedule with the exchanges inside groups and
/// between stages. Then adds the longest time that a peer needs to sum gradients, and the messages
/// that end a step. Peer i of the site has rank i. Its `operations_per_s` are the micro-batches per
/// second that it could take through the whole model.
double predicted_step(const StageLayout& layout, const LayoutCosts& costs, const SplitSite& site);

/// Of the layouts in which each peer carries a stage, the one with the shortest predicted step. The
/// candidates are the plans of best_plans() for each number of stages and each size of groups up to
/// `costs.group`. Starting from each plan, peers join or swap with others as long as that makes the
/// step shorter. The search ends once it has taken `layout_steps_max` steps, and returns the best
/// layout found until then. In best_plans(), peers count as equally fast if their speeds differ by
/// less than the fraction `worth_changing`. Among equally fast peers, as many stages as possible
/// stay where `present` has them. A pinned rank carries its pinned stage in every candidate. `pins`
/// may be empty if no rank is pinned. Returns nullopt if there are too many peers or stages, if
/// every plan has too few micro-batches for its replicas or more than `assignments_max`
/// assignments, or if the steps do not suffice for a single prediction.
std::optional<StageLayout> best_layout(const StageLayout& present, const LayoutCosts& costs,
                                       const SplitSite& site,
                                       std::span<const std::optional<std::uint32_t>> pins = {});
/// Like the function above, but takes the steps of the search from `budget`.
std::optional<StageLayout> best_layout(const StageLayout& present, const LayoutCosts& costs,
                                       const SplitSite& site,
                                       std::span<const std::optional<std::uint32_t>> pins,
                                       SearchBudget& budget);

}  // namespace gv
