// What a swarm goes by since it was told to, on disk: for when this peer is started again.
#pragma once

#include <filesystem>
#include <optional>

#include "consensus/message/message.hpp"

namespace gv {

/// The settings revision in a run folder's file `settings revision`: its number on a line, then its
/// settings. Number 0 if there is no such file; nothing if there is one that cannot be read as
/// that.
std::optional<SettingsRevision> read_revision(const std::filesystem::path& folder);

/// Replaces the file, or removes it if no settings revision was made. False if that cannot be done.
bool write_revision(const std::filesystem::path& folder, const SettingsRevision& revision);

}  // namespace gv
