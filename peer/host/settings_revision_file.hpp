// What a swarm goes by since it was told to, on disk: for when this peer is started again.
#pragma once

#include <filesystem>
#include <optional>

#include "consensus/message/message.hpp"

namespace gv {

/// The ruling in a run folder's file `ruling`: its number on a line, then its settings. Number 0 if
/// there is no such file; nothing if there is one that cannot be read as that.
std::optional<Ruling> read_ruling(const std::filesystem::path& folder);

/// Replaces the file, or removes it if no ruling was made. False if that cannot be done.
bool write_ruling(const std::filesystem::path& folder, const Ruling& ruling);

}  // namespace gv
