// The settings revision on disk, for when this peer is started again.
#pragma once

#include <filesystem>
#include <optional>

#include "consensus/message/message.hpp"

namespace gv {

/// The settings revision in a run folder's file `settings_revision`: its number on a line, then its
/// settings. Number 0 if there is no such file; empty if it cannot be read.
std::optional<SettingsRevision> read_revision(const std::filesystem::path& folder);

/// Replaces the file, or removes it if there is no settings revision. False if that fails.
bool write_revision(const std::filesystem::path& folder, const SettingsRevision& revision);

}  // namespace gv
