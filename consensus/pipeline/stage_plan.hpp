// Plans a pipeline's stage assignments and common version from the peers' stage holdings.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "consensus/message/message.hpp"

namespace gv {

/// One peer's answer when a generation of a pipeline is agreed on.
struct StageOffer {
  PeerId peer{};
  double speed = 0;  ///< Relative to the others; 0: not known.
  std::vector<StageHolding> holdings;
  bool leaves = false;  ///< It carries no stage from now on, but sends the states it has.
};

struct StagePlan {
  ModelVersion version;  ///< The version that all go on from.
  std::vector<StageAssignment> assignments;
};

struct StagePlanOptions {
  /// The carrier of a stage also carries its mirror image, the stage equally far from the other
  /// end, as Chimera needs it. The number of stages is then even.
  bool mirrored = false;
};

/// Takes the newest version at which every stage is held by some peer, maps the stages (map_stages)
/// and names a source for every state that a carrier lacks. At step 0 every peer has every stage,
/// because the run's seed gives it; but that version is taken only if all peers claim a holding of
/// it, as otherwise later work would be lost. Empty if some stage is lost: then no version is
/// complete, and peers do not go on from a guess. `offers` are sorted by id, and not all of them
/// leave.
std::optional<StagePlan> plan_stages(std::span<const StageOffer> offers,
                                     std::span<const double> stage_seconds,
                                     const StagePlanOptions& options = {});

}  // namespace gv
