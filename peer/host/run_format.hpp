// The format version of a run folder.
#pragma once

#include <filesystem>

#include "base/problems.hpp"

namespace gv {

/// Returns a problem if another version of the program wrote the run folder, because a peer cannot
/// continue in such a folder. Empty if this version wrote it, or if there are no checkpoints yet.
Problems run_format_problems(const std::filesystem::path& folder);

/// Marks the folder with this version's format. Ignores failures, because a failure to write a more
/// important file is reported anyway.
void write_run_format(const std::filesystem::path& folder);

}  // namespace gv
