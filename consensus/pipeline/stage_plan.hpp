// From what peers hold of a pipeline's stages: who carries what, from which state on.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "consensus/message/message.hpp"

namespace gv {

/// What one peer says when a generation of a pipeline is agreed on.
struct StageOffer {
  PeerId peer{};
  double speed = 0;  ///< Relative to the others; 0: not known.
  std::vector<StageHolding> holdings;
  bool leaves = false;  ///< It carries nothing from now on, but sends what it has.
};

struct StagePlan {
  ModelVersion version;  ///< All go on from here.
  std::vector<StageAssignment> assignments;
};

struct StagePlanOptions {
  /// Of an even number of stages, whoever carries one carries the one as far from the other end as
  /// well, as Chimera wants it.
  bool mirrored = false;
};

/// The newest version at which somebody has every stage, and on it the chain map (map_stages) with
/// a source for every state that its carrier lacks. At operation 0 everybody has everything,
/// because the run's seed gives it; but all go back there only if all claim something of it, since
/// with a later one more would be lost. Empty if some stage is lost: no version is complete, so
/// nobody goes on from a guess. `offers` are sorted by id, and not all of them leave.
std::optional<StagePlan> plan_stages(std::span<const StageOffer> offers,
                                     std::span<const double> stage_seconds,
                                     const StagePlanOptions& options = {});

}  // namespace gv
