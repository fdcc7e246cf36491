// Files that are either written completely or left unchanged.
#pragma once

#include <filesystem>
#include <string_view>

namespace gv {

/// The readers of a file: as the system's settings allow, or only the user that runs the peer.
enum class Readers { usual, owner };

/// Whether the content also outlasts a crash of the machine. Waiting for a disk takes milliseconds.
enum class Lasts { until_crash, on_disk };

/// Replaces the file's content with `text`, through a file beside it whose name ends in ".new".
/// Returns false if that fails, and leaves the file as it was.
bool replace_file(const std::filesystem::path& file, std::string_view text,
                  Readers readers = Readers::usual, Lasts lasts = Lasts::until_crash);

}  // namespace gv
