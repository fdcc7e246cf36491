// The end of a run by a common mean: what a replica keeps of it, and whether it still counts.
#pragma once

#include <cstdint>
#include <memory>

#include "peer/modes/course.hpp"
#include "peer/node/job.hpp"

namespace gv {

/// What becomes of a replica with the mean. The mean's version is beyond the steps of all peers, so
/// that it counts for more than any model; the replica itself stays at a true number of steps, from
/// which a later run goes on.
struct MeanEnd {
  std::uint64_t version_step = 0;  ///< Step of the mean's version.
  std::uint64_t step = 0;          ///< Step at which the replica stays.
  SwarmNote note;                  ///< The checkpoint's note, with how the run has ended.

  /// The note of a checkpoint with the model of that version; null if it is not the mean.
  std::shared_ptr<const SwarmNote> note_of(const ModelVersion& version) const;
};

/// The first version of a peer that has resumed with the mean. It is the one that the mean had if
/// the limits of the run are the same, so that two means are told apart. `version_step` as above.
ModelVersion version_of(const RunEnd& end, std::uint64_t version_step);

/// True if a run with these limits ends where the other has ended: if no limit is higher, or if one
/// that had ended it is not.
bool is_over_for(const SwarmWorkOptions& run, const RunEnd& end);

}  // namespace gv
