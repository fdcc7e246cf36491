// Describes how a run ends with a common mean, and checks whether a later run has more to do.
#pragma once

#include <cstdint>
#include <memory>

#include "peer/modes/course.hpp"
#include "peer/node/job.hpp"

namespace gv {

/// How a replica's training ends with the common mean. The step in the mean's version is beyond the
/// steps of all peers, so the mean takes precedence over any other model. The replica itself keeps
/// a real number of steps, from which a later run continues.
struct MeanEnd {
  std::uint64_t version_step = 0;  ///< The step in the mean's version.
  std::uint64_t step = 0;          ///< The replica's own step.
  SwarmNote note;                  ///< The checkpoint's note about the end of the run.

  /// Returns the note for a checkpoint of the model with that version; null if that model is not
  /// the mean.
  std::shared_ptr<const SwarmNote> note_of(const ModelVersion& version) const;
};

/// Returns the first version of a peer that has resumed with the mean. If the run's limits are
/// unchanged, this equals the version of the mean that ended the run, so that peers can tell two
/// means apart. For `version_step`, see MeanEnd.
ModelVersion version_of(const RunEnd& end, std::uint64_t version_step);

/// True if a run with the limits `run` has nothing to add to a run that ended as `end` states. This
/// is so if `run` raises none of the earlier limits, or if it does not raise a limit that ended the
/// earlier run.
bool is_over_for(const SwarmWorkOptions& run, const RunEnd& end);

}  // namespace gv
