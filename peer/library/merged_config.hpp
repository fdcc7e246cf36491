// Reads a config file with some settings replaced.
#pragma once

#include <string>
#include <string_view>

#include "peer/config/config.hpp"

namespace gv {

/// Reads the config file. Settings in the TOML text `settings` override those in the file. If
/// `path` is empty, all other settings have their defaults; if both are empty, the result is the
/// built-in config.
ParsedConfig merged_config(const std::string& path, std::string_view settings,
                           const ConfigOverrides& overrides);

/// Returns the merged text that merged_config() parses. Throws std::runtime_error if the file or
/// `settings` is not TOML; merged_config() instead reports this as a problem.
std::string merged_text(const std::string& path, std::string_view settings);

}  // namespace gv
