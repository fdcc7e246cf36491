// Plans which peers carry which stages, and from which version, given the states that peers hold.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "consensus/message/message.hpp"
#include "consensus/pipeline/peer_groups.hpp"
#include "consensus/pipeline/stage_layout.hpp"
#include "consensus/pipeline/stage_parts.hpp"

namespace gv {

/// One peer's offer in the agreement on a generation of a pipeline.
struct StageOffer {
  PeerId peer{};
  double speed = 0;  ///< Speed relative to the other peers; 0 if not known.
  /// The states that the peer holds, with one part in each holding.
  std::vector<StageHolding> holdings;
  /// True if the peer will carry no stage, but still sends the states that it has.
  bool leaves = false;
};

/// The newest version of which these peers together hold all `parts` parts; nullopt if there is
/// none.
std::optional<ModelVersion> newest_complete(std::span<const StageOffer> offers,
                                            std::uint32_t parts);

struct StagePlan {
  ModelVersion version;  ///< The version from which all peers continue.
  std::vector<StageAssignment> assignments;
};

/// The link between two peers, as measured or assumed.
using LinkBetween = std::function<SplitLink(PeerId, PeerId)>;

struct StagePlanOptions {
  /// True if the carrier of a stage also carries its mirror image (the stage equally far from the
  /// other end), as Chimera requires. The number of stages must then be even.
  bool mirrored = false;
  /// The parts of the stages. By default stages have no slices.
  StageParts parts = {};
  GroupSize group = {};         ///< Bounds for groups of stages that have slices.
  std::size_t slices_most = 0;  ///< The most slices of a stage that fit into a member's memory.
  /// The costs of a step. If set, the predicted time of a step decides on all stages and groups. If
  /// not, one peer at a time moves to the slowest stage, and groups are as large as allowed. Must
  /// not be set together with `mirrored` or `slices_most`.
  std::optional<LayoutCosts> layouts = {};
  /// Maps each pinned peer to the stage that it carries in every generation that it is in.
  std::map<PeerId, std::uint32_t> pins = {};
};

/// The stages and slices that each rank of a generation carries.
struct HeldParts {
  std::vector<std::vector<std::uint32_t>> stages;      ///< Stages of each rank, sorted.
  std::vector<std::map<std::uint32_t, Range>> slices;  ///< Slices of each rank, by stage.
  /// True if some rank's slices are not consecutive, or belong to a stage that the rank does not
  /// carry.
  bool is_ragged = false;
};
HeldParts held_parts(std::span<const PeerId> order, const std::vector<StageAssignment>& assignments,
                     const StageParts& parts);

/// The groups of a generation. Ranks that carry the same stages form a group if their slices, one
/// rank after another, cover the first slice to the last. A rank that has all slices is alone in
/// its group.
PeerGroups groups_of(const HeldParts& held, const StageParts& parts);

/// Takes the newest version for which every part is held by some peer, and assigns the stages
/// (map_stages). Gives each member of a group slices in proportion to its speed, and names a source
/// for every state that a carrier lacks. At step 0, every peer has every part, because the run's
/// seed determines them. But the version of step 0 is taken only if all peers report that they hold
/// it, because otherwise later work would be lost. Returns nullopt if some part is lost, because
/// then no version is complete and peers must not guess. Also returns nullopt if too few peers are
/// left to hold all stages in their memory, or if all peers leave. `offers` must be sorted by id.
///
/// With `options.layouts`, the peers take the best layout (best_layout) if it is predicted to
/// shorten a step by more than the fraction `worth_changing`. Otherwise, they keep their stages and
/// groups, except where losses, newcomers and pins require a change. As long as no peer's speed is
/// known, nothing is predicted. `link` may be empty if links cost nothing.
std::optional<StagePlan> plan_stages(std::span<const StageOffer> offers,
                                     std::span<const double> stage_seconds,
                                     StagePlanOptions options = {}, const LinkBetween& link = {});

}  // namespace gv
