// The version of this program that a run folder belongs to.
#pragma once

#include <filesystem>

#include "base/problems.hpp"

namespace gv {

/// Why a peer cannot go on with its run folder: an earlier version wrote it, under other names.
/// Empty if this version did, or nothing is there yet.
Problems run_format_problems(const std::filesystem::path& folder);

/// Marks the folder as one of this version. Ignores failures: files that matter report their own.
void write_run_format(const std::filesystem::path& folder);

}  // namespace gv
