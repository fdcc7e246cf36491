// Chooses the folder of a run that is given none.
#pragma once

#include <filesystem>

namespace gv {

/// Makes a folder below `base` that did not exist yet: base/run-001, run-002, ... Throws
/// std::runtime_error when it cannot.
std::filesystem::path new_run_folder(const std::filesystem::path& base);

}  // namespace gv
