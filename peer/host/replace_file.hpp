// Files that are either written completely or left unchanged.
#pragma once

#include <filesystem>
#include <string_view>

namespace gv {

/// The readers of a file: as the system's settings allow, or only the user that runs the peer.
enum class Readers { usual, owner };

/// Replaces the file's content with `text`, through a file beside it whose name ends in ".new".
/// Returns false if that fails, and leaves the file as it was. A crash of the machine may still
/// lose the new content.
bool replace_file(const std::filesystem::path& file, std::string_view text,
                  Readers readers = Readers::usual);

}  // namespace gv
