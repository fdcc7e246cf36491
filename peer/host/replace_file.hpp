// Files that are written whole or stay as they were.
#pragma once

#include <filesystem>
#include <string_view>

namespace gv {

/// Puts `text` in place of the file, through one beside it whose name ends in ".new". False if that
/// cannot be done; then the file is as it was. A crash of the machine may still lose what is new.
bool replace_file(const std::filesystem::path& file, std::string_view text);

}  // namespace gv
