// How the models of a finished run have moved, according to its peers' checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "sim/model_paths.hpp"
#include "train/learner/layout.hpp"

namespace gv {

/// Reads the checkpoints below the peers' folders, one moment at a time. Peers save at slightly
/// different steps, so a moment is a step rounded down to a multiple of `every_steps` (above 0).
/// Reads at most a hundred moments, and skips unreadable files.
ModelPaths read_model_history(std::span<const std::filesystem::path> folders, const Layout& layout,
                              std::uint64_t every_steps);

}  // namespace gv
