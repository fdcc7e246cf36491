// Plans which peers carry which stages, and from which version, based on the states that they hold.
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
  double speed = 0;                    ///< Speed relative to the other peers; 0 if not known.
  std::vector<StageHolding> holdings;  ///< Holdings of one part each.
  bool leaves = false;  ///< True if it will carry no stage, but still sends the states that it has.
};

/// The newest version of which these peers have every part together; nullopt if there is none.
std::optional<ModelVersion> newest_complete(std::span<const StageOffer> offers,
                                            std::uint32_t parts);

struct StagePlan {
  ModelVersion version;  ///< The version from which all peers continue.
  std::vector<StageAssignment> assignments;
};

/// The link between two peers, as measured or assumed.
using LinkBetween = std::function<SplitLink(PeerId, PeerId)>;

struct StagePlanOptions {
  /// True if the carrier of a stage also carries its mirror image, the stage equally far from the
  /// other end, as Chimera requires. The number of stages must then be even.
  bool mirrored = false;
  /// The parts of the stages. Empty: they have no slices.
  StageParts parts = {};
  GroupSize group = {};         ///< Bounds for groups of stages that have slices.
  std::size_t slices_most = 0;  ///< The most slices of a stage that fit into a member's memory.
  /// What a step costs, if all stages and groups are to be chosen by its predicted time. Empty: one
  /// peer at a time moves to the slowest stage, and groups are as large as they may be. With
  /// `mirrored` or `slices_most` it must be empty.
  std::optional<LayoutCosts> layouts = {};
  /// The stages that these peers carry whenever they take part.
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
HeldParts held_parts(std::span<const PeerId> order, std::span<const StageAssignment> assignments,
                     const StageParts& parts);

/// The groups of a generation: of the ranks that carry the same stages, those whose slices follow
/// each other from the first to the last one. A rank that has all of them is alone in its group.
PeerGroups groups_of(const HeldParts& held, const StageParts& parts);

/// Takes the newest version for which every part is held by some peer, assigns the stages
/// (map_stages), gives each member of a group slices in proportion to its speed, and names a source
/// for every state that a carrier lacks. At step 0 every peer has every part, because the run's
/// seed determines them; but that version is taken only if all peers report that they hold it, as
/// otherwise later work would be lost. Returns nullopt if some part is lost, because then no
/// version is complete and peers must not guess, or if there are too few peers for their memory.
/// `offers` must be sorted by id, and not all peers may be leaving.
///
/// With `options.layouts` the peers keep their stages and groups, apart from what losses,
/// newcomers and pins make necessary, unless the best layout (best_layout) is predicted to make a
/// step shorter by more than `worth_changing`. As long as no peer's speed is known there is no
/// prediction. `link` may be empty if links cost nothing.
std::optional<StagePlan> plan_stages(std::span<const StageOffer> offers,
                                     std::span<const double> stage_seconds,
                                     StagePlanOptions options = {}, const LinkBetween& link = {});

}  // namespace gv
