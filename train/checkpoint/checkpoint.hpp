// A replica on disk: parameters in one safetensors file, the optimiser's state in a second.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "train/learner/learner.hpp"

namespace gv {

struct Checkpoint {
  std::vector<float> parameters;
  OptimizerState optimizer;
  std::map<std::string, std::string> metadata;
};

/// Writes step-NNNNNNNNNN.optimizer.safetensors and then step-NNNNNNNNNN.safetensors into `folder`
/// (created if missing), so that a parameter file implies its partner, and deletes all but the
/// newest `keep` pairs (at least this one) up to this step; pairs of later steps stay. Returns why
/// it could not, or an empty string; older checkpoints are then untouched.
std::string save_checkpoint(const std::filesystem::path& folder, const Layout& layout,
                            std::span<const float> parameters, const OptimizerState& optimizer,
                            std::map<std::string, std::string> metadata, std::size_t keep);

/// Whether the file's name is that of a checkpoint's parameters. Names sort by step.
bool is_parameter_file(const std::filesystem::path& file);

/// The newest complete checkpoint, and why newer ones were refused.
struct LoadedCheckpoint {
  std::optional<Checkpoint> checkpoint;
  std::filesystem::path file;  ///< Its parameter file.
  std::vector<std::pair<std::filesystem::path, std::string>> refused;
};
LoadedCheckpoint load_newest_checkpoint(const std::filesystem::path& folder, const Layout& layout);

/// All complete checkpoints, the newest first, and why others were refused.
struct LoadedCheckpoints {
  std::vector<Checkpoint> checkpoints;
  std::vector<std::pair<std::filesystem::path, std::string>> refused;
};
LoadedCheckpoints load_checkpoints(const std::filesystem::path& folder, const Layout& layout);

/// Only the parameters, from any file that has the layout's tensors in any order.
struct LoadedParameters {
  std::vector<float> parameters;
  std::map<std::string, std::string> metadata;
  std::string problem;  ///< Empty when the rest may be used.
};
LoadedParameters load_parameters(const std::filesystem::path& file, const Layout& layout);

}  // namespace gv
