// Resumes a pipeline's peer from its checkpoints of stages.
#pragma once

#include <filesystem>
#include <memory>

#include "peer/config/task.hpp"
#include "peer/node/stage_replica.hpp"

namespace gv {

/// Loads the stages of the newest version on disk, or their saved slices. Keeps stages of older
/// versions as copies, because the swarm continues from the newest version for which every stage
/// exists.
StartingPoint resumed_stages(std::unique_ptr<StageReplica> replica,
                             const std::filesystem::path& checkpoints);

}  // namespace gv
