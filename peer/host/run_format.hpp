// The format version of a run folder.
#pragma once

#include <filesystem>

#include "base/problems.hpp"

namespace gv {

/// Returns a problem if the run folder has a format other than this program's, because a peer
/// cannot continue in such a folder. Empty if the formats agree, or if there are no checkpoints
/// yet.
Problems run_format_problems(const std::filesystem::path& folder);

/// Marks the folder with this version's format. Ignores failures, because a failure to write a more
/// important file is reported anyway.
void write_run_format(const std::filesystem::path& folder);

}  // namespace gv
