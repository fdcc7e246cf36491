// The format version of a run folder.
#pragma once

#include <filesystem>

#include "base/problems.hpp"

namespace gv {

/// Returns why a peer cannot continue in its run folder: another version of the program wrote it.
/// Empty if this version wrote it, or if there are no checkpoints yet.
Problems run_format_problems(const std::filesystem::path& folder);

/// Marks the folder with this version. Ignores failures, because files that matter report their
/// own.
void write_run_format(const std::filesystem::path& folder);

}  // namespace gv
