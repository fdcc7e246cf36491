// Plans who carries which stage, and from which version, based on what the peers hold.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "consensus/message/message.hpp"

namespace gv {

/// What one peer offers when a generation of a pipeline is agreed on.
struct StageOffer {
  PeerId peer{};
  double speed = 0;  ///< Speed relative to the other peers; 0 if not known.
  std::vector<StageHolding> holdings;
  bool leaves = false;  ///< True if it will carry no stage, but still sends the states that it has.
};

struct StagePlan {
  ModelVersion version;  ///< The version that all peers continue from.
  std::vector<StageAssignment> assignments;
};

struct StagePlanOptions {
  /// The carrier of a stage also carries its mirror image, the stage equally far from the other
  /// end, as Chimera requires. The number of stages must then be even.
  bool mirrored = false;
};

/// Takes the newest version for which every stage is held by some peer, assigns the stages
/// (map_stages), and names a source for every state that a carrier lacks. At step 0 every peer has
/// every stage, because the run's seed determines them; but that version is taken only if all peers
/// say that they hold it, as otherwise later work would be lost. Returns nullopt if some stage is
/// lost: then no version is complete, and peers must not guess. `offers` must be sorted by id, and
/// not all of them may leave.
std::optional<StagePlan> plan_stages(std::span<const StageOffer> offers,
                                     std::span<const double> stage_seconds,
                                     const StagePlanOptions& options = {});

}  // namespace gv
