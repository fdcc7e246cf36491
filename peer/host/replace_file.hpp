// Files that are written completely or stay as they were.
#pragma once

#include <filesystem>
#include <string_view>

namespace gv {

/// Replaces the file's content with `text`, through a file beside it whose name ends in ".new".
/// Returns false if that fails, and leaves the file as it was. A crash of the machine may still
/// lose the new content.
bool replace_file(const std::filesystem::path& file, std::string_view text);

}  // namespace gv
