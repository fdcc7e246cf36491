// Chooses a folder for a run if none is given.
#pragma once

#include <filesystem>

namespace gv {

/// Makes a new folder below `base`: the first free one of run-001, run-002, ... Throws
/// std::runtime_error on failure.
std::filesystem::path new_run_folder(const std::filesystem::path& base);

}  // namespace gv
