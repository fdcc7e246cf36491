// The config stored in a checkpoint file, and scores as text.
#pragma once

#include <string>

#include "peer/config/config.hpp"
#include "train/data_set.hpp"
#include "train/model.hpp"

namespace gv {

/// The settings that a parameter file was trained with, and their text.
struct StoredConfig {
  ParsedConfig parsed;
  std::string text;
};
/// Returns the settings in the file, or those in the file that `config` names. Reports problems if
/// there are none.
StoredConfig stored_config(const std::string& file, const std::string& config);

/// Returns the loss, and the accuracy if there are classes, in one line.
std::string to_text(const Score& score, const DataSet& data);

}  // namespace gv
