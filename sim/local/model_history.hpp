// How the models of a finished run have moved, by the checkpoints that its peers have left.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "sim/model_paths.hpp"
#include "train/learner/layout.hpp"

namespace gv {

/// Reads the checkpoints below the peers' folders, one step of all peers at a time. Peers save at
/// steps that differ a little, so a moment is a multiple of `every_steps`, which is above 0. Reads
/// at most a hundred moments, and leaves out files that cannot be read.
ModelPaths read_model_history(std::span<const std::filesystem::path> folders, const Layout& layout,
                              std::uint64_t every_steps);

}  // namespace gv
