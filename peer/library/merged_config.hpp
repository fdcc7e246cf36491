// A config file with some settings replaced.
#pragma once

#include <string>
#include <string_view>

#include "peer/config/config.hpp"

namespace gv {

/// Reads the config file after replacing its settings by those of the TOML text `settings`. Without
/// a file all other settings have their defaults; without settings either, it is the built-in
/// config.
ParsedConfig merged_config(const std::string& path, std::string_view settings,
                           const ConfigOverrides& overrides);

/// The text that merged_config() reads. Throws std::runtime_error if the file or the settings are
/// not TOML, which merged_config() reports as a problem.
std::string merged_text(const std::string& path, std::string_view settings);

}  // namespace gv
