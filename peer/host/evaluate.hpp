// The config stored in a checkpoint file, and scores as text.
#pragma once

#include <string>

#include "peer/config/config.hpp"
#include "train/data_set.hpp"
#include "train/evaluation.hpp"
#include "train/model.hpp"

namespace gv {

/// The settings with which a parameter file was trained, and the text of these settings.
struct StoredConfig {
  ParsedConfig parsed;
  std::string text;
};
/// Returns the settings in the file, or those in the config file `config` if one is named. Reports
/// a problem if there are no settings.
StoredConfig stored_config(const std::string& file, const std::string& config);

/// Returns, for example, "accuracy 91.20 %" or "R2 0.9120".
std::string to_text(const Merit& merit);

/// Returns the accuracy or R2, and the loss, in one line. The score must cover all of `data`.
std::string to_text(const Score& score, const DataSet& data);

}  // namespace gv
