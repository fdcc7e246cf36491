// A replica on disk: its parameters in one safetensors file and the optimiser's state in another.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// Writes step-NNNNNNNNNN.optimizer.safetensors and step-NNNNNNNNNN.safetensors into `folder`
/// (created if missing). Both are complete on the disk before the first gets its name, and the
/// parameter file gets its name last, so that a crash cannot leave it without its optimiser file.
/// Then deletes the pairs of later steps, and all but the newest `keep` pairs (at least one).
/// Returns the reason for a failure, or an empty string. After a failure, a checkpoint that was
/// there before can still be loaded, also one of this step, unless the new one can be.
std::string save_checkpoint(const std::filesystem::path& folder, const Layout& layout,
                            std::span<const float> parameters, const OptimizerState& optimizer,
                            std::map<std::string, std::string> metadata, std::size_t keep);

/// Deletes the checkpoints of steps after `step`. A replica that has gone back to `step` has
/// abandoned them, and a later start must not take them for its newest ones.
void remove_later_checkpoints(const std::filesystem::path& folder, std::uint64_t step);

/// True if the file has the name of a checkpoint's parameter file.
bool is_parameter_file(const std::filesystem::path& file);

/// True if the name of parameter file `a` has a lower step than that of `b`. Files of the same step
/// have a fixed order.
bool is_older(const std::filesystem::path& a, const std::filesystem::path& b);

/// The parameter files in a folder, newest first; empty if there is no such folder.
std::vector<std::filesystem::path> parameter_files(const std::filesystem::path& folder);

/// Returns the layout that the tensors in a file with these metadata should have.
using LayoutOf = std::function<Layout(const std::map<std::string, std::string>&)>;

/// Takes over the content of a checkpoint. Returns why it cannot be used, or an empty string.
using TakeOver = std::function<std::string(Checkpoint&)>;

/// The newest usable checkpoint, and why newer ones were refused.
struct LoadedCheckpoint {
  std::optional<Checkpoint> checkpoint;
  std::filesystem::path file;  ///< The parameter file of `checkpoint`.
  std::vector<std::pair<std::filesystem::path, std::string>> refused;
  /// The newest refused file that could be read but belongs to another model or optimiser, and why
  /// it was refused.
  std::optional<std::pair<std::filesystem::path, std::string>> unfit;
};
LoadedCheckpoint load_newest_checkpoint(const std::filesystem::path& folder, const Layout& layout);
LoadedCheckpoint load_newest_checkpoint(const std::filesystem::path& folder,
                                        const LayoutOf& layout_of);
/// Loads the newest checkpoint that `take_over` accepts. Reads no older ones.
LoadedCheckpoint load_newest_checkpoint(const std::filesystem::path& folder,
                                        const LayoutOf& layout_of, const TakeOver& take_over);

/// All complete checkpoints, newest first, and why others were refused.
struct LoadedCheckpoints {
  std::vector<Checkpoint> checkpoints;
  std::vector<std::pair<std::filesystem::path, std::string>> refused;
  /// The newest refused file that could be read but belongs to another model or optimiser, and why
  /// it was refused.
  std::optional<std::pair<std::filesystem::path, std::string>> unfit;
};
LoadedCheckpoints load_checkpoints(const std::filesystem::path& folder, const LayoutOf& layout_of);

/// Parameters from any file that has exactly the layout's tensors, in any order.
struct LoadedParameters {
  std::vector<float> parameters;
  std::map<std::string, std::string> metadata;
  std::string problem;    ///< Why the file cannot be used. Empty if it can.
  bool is_sound = false;  ///< True if the file could be read, even if its tensors do not fit the
                          ///< layout.
};
LoadedParameters load_parameters(const std::filesystem::path& file, const Layout& layout);
LoadedParameters load_parameters(const std::filesystem::path& file, const LayoutOf& layout_of);

}  // namespace gv
