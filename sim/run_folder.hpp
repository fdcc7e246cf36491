// Chooses a folder for a run if none is given, and checks a given one.
#pragma once

#include <filesystem>

#include "base/problems.hpp"

namespace gv {

/// Makes a new folder below `base`: the first free one of run-001, run-002, ... Throws
/// std::runtime_error on failure.
std::filesystem::path new_run_folder(const std::filesystem::path& base);

/// Makes the folder `given` (the value of --folder) or, if that is empty, the folder `base` of all
/// runs (the value of run.folder). Returns a problem if it cannot be made or written to.
Problems problems_with_folder(const std::filesystem::path& given,
                              const std::filesystem::path& base);

}  // namespace gv
