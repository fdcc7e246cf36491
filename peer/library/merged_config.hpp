// A config file with some settings replaced.
#pragma once

#include <string>
#include <string_view>

#include "peer/config/config.hpp"

namespace gv {

/// Reads the config file (empty: the built-in config) after replacing its settings by those of the
/// TOML text `settings`. Problems in replaced settings name the settings, and no file.
ParsedConfig merged_config(const std::string& path, std::string_view settings,
                           const ConfigOverrides& overrides);

}  // namespace gv
