// The format version of a run folder.
#pragma once

#include <filesystem>

#include "base/problems.hpp"

namespace gv {

/// Returns a problem if the run folder has a format other than this program's, or a mark that
/// cannot be read. A peer cannot continue in such a folder. A folder without a mark has the format
/// of the first versions. Empty if the formats agree, or if there are no checkpoints yet.
Problems run_format_problems(const std::filesystem::path& folder);

/// Marks the folder with this version's format. The mark is on the disk when this returns, so that
/// no crash of the machine leaves checkpoints without one. Returns a problem if the folder then has
/// no mark of this format.
[[nodiscard]] Problems write_run_format(const std::filesystem::path& folder);

}  // namespace gv
