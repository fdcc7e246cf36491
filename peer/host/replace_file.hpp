// Files that are either written completely or left unchanged.
#pragma once

#include <filesystem>
#include <string_view>

namespace gv {

/// Which users may read a file: all whom the system's settings allow, or only the peer's own user.
enum class Readers { usual, owner };

/// Whether the content also survives a crash of the machine. Waiting for a disk takes milliseconds.
enum class Lasts { until_crash, on_disk };

/// Replaces the file's content with `text`, through a file beside it whose name ends in ".new". On
/// failure, returns false and leaves the file as it was.
bool replace_file(const std::filesystem::path& file, std::string_view text,
                  Readers readers = Readers::usual, Lasts lasts = Lasts::until_crash);

}  // namespace gv
