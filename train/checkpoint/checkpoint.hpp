// A replica on disk: its parameters in one safetensors file and the optimiser's state in another.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
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
/// (created if missing), so that a parameter file implies its partner. Then deletes all but the
/// newest `keep` pairs (at least one) up to this step; pairs of later steps are kept. Returns why
/// it failed, or an empty string; after a failure older checkpoints are untouched.
std::string save_checkpoint(const std::filesystem::path& folder, const Layout& layout,
                            std::span<const float> parameters, const OptimizerState& optimizer,
                            std::map<std::string, std::string> metadata, std::size_t keep);

/// True if the file's name is that of a checkpoint's parameters. Names sort by step.
bool is_parameter_file(const std::filesystem::path& file);

/// The layout of the tensors in a file with these metadata.
using LayoutOf = std::function<Layout(const std::map<std::string, std::string>&)>;

/// The newest complete checkpoint, and why newer ones were refused.
struct LoadedCheckpoint {
  std::optional<Checkpoint> checkpoint;
  std::filesystem::path file;  ///< The parameter file of `checkpoint`.
  std::vector<std::pair<std::filesystem::path, std::string>> refused;
};
LoadedCheckpoint load_newest_checkpoint(const std::filesystem::path& folder, const Layout& layout);
LoadedCheckpoint load_newest_checkpoint(const std::filesystem::path& folder,
                                        const LayoutOf& layout_of);

/// All complete checkpoints, newest first, and why others were refused.
struct LoadedCheckpoints {
  std::vector<Checkpoint> checkpoints;
  std::vector<std::pair<std::filesystem::path, std::string>> refused;
};
LoadedCheckpoints load_checkpoints(const std::filesystem::path& folder, const LayoutOf& layout_of);

/// Parameters from any file that has exactly the layout's tensors, in any order.
struct LoadedParameters {
  std::vector<float> parameters;
  std::map<std::string, std::string> metadata;
  std::string problem;  ///< Why the file cannot be used. Empty if it can.
};
LoadedParameters load_parameters(const std::filesystem::path& file, const Layout& layout);
LoadedParameters load_parameters(const std::filesystem::path& file, const LayoutOf& layout_of);

}  // namespace gv
