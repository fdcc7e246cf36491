// Keeps the settings revision on disk, so that it still applies after this peer restarts.
#pragma once

#include <filesystem>
#include <optional>

#include "consensus/message/message.hpp"

namespace gv {

/// Reads the settings revision from the file `settings_revision` of a run folder: its number on the
/// first line, then its settings. Returns number 0 if there is no such file, and nullopt if the
/// file is damaged.
std::optional<SettingsRevision> read_revision(const std::filesystem::path& folder);

/// Replaces the file, or removes it if there is no settings revision. Returns false on failure.
bool write_revision(const std::filesystem::path& folder, const SettingsRevision& revision);

}  // namespace gv
