// Plans who carries which stage, and from which version, based on what the peers hold.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "consensus/message/message.hpp"
#include "consensus/pipeline/peer_groups.hpp"
#include "consensus/pipeline/stage_parts.hpp"

namespace gv {

/// What one peer offers when a generation of a pipeline is agreed on.
struct StageOffer {
  PeerId peer{};
  double speed = 0;                    ///< Speed relative to the other peers; 0 if not known.
  std::vector<StageHolding> holdings;  ///< Each of one part.
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
  /// The parts of the stages. Empty: they have no slices.
  StageParts parts = {};
  GroupSize group = {};         ///< Of stages that have slices.
  std::size_t slices_most = 0;  ///< The most slices of a stage that a member has memory for.
};

/// The groups of a generation whose rank r carries stages[r].
PeerGroups groups_of(std::span<const std::vector<std::uint32_t>> stages,
                     const StagePlanOptions& options);

/// What each rank of a generation carries.
struct HeldParts {
  std::vector<std::vector<std::uint32_t>> stages;      ///< Sorted.
  std::vector<std::map<std::uint32_t, Range>> slices;  ///< By stage.
  /// True if some slices do not follow each other, or are of a stage that their rank does not
  /// carry.
  bool is_ragged = false;
};
HeldParts held_parts(std::span<const PeerId> order, std::span<const StageAssignment> assignments,
                     const StageParts& parts);

/// Takes the newest version for which every part is held by some peer, assigns the stages
/// (map_stages), gives each member of a group slices in proportion to its speed, and names a source
/// for every state that a carrier lacks. At step 0 every peer has every part, because the run's
/// seed determines them; but that version is taken only if all peers say that they hold it, as
/// otherwise later work would be lost. Returns nullopt if some part is lost: then no version is
/// complete, and peers must not guess; or if they are too few for what their memory holds. `offers`
/// must be sorted by id, and not all of them may leave.
std::optional<StagePlan> plan_stages(std::span<const StageOffer> offers,
                                     std::span<const double> stage_seconds,
                                     StagePlanOptions options = {});

}  // namespace gv
