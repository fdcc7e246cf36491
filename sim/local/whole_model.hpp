// Assembles one model from the checkpoints of several peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "peer/config/config.hpp"
#include "peer/config/task.hpp"
#include "train/checkpoint/checkpoint.hpp"
#include "train/layers/sliced_stage.hpp"

namespace gv {

/// A peer's newest valid checkpoint: a whole model, or the stages that the peer carried.
struct LastModel {
  std::vector<float> parameters;             ///< Empty in a pipeline, or if there is no checkpoint.
  std::map<std::size_t, Checkpoint> stages;  ///< The stages carried in a pipeline, by number.
  /// For each stage, the ranges of its parameters that the peer has.
  std::map<std::size_t, std::vector<Range>> ranges;
  std::uint64_t step = 0;  ///< The step of the parameters.

  bool is_there() const { return !parameters.empty() || !stages.empty(); }
};

/// A pipeline's stages; empty in other modes.
std::vector<SlicedStage> sliced_stages_of(const Config& config, const TestSet& test);

/// Reads the last model from `checkpoints` in a peer's `folder`.
LastModel read_last_model(const std::filesystem::path& folder, const Layout& whole,
                          const std::vector<SlicedStage>& stages);

/// The mean of all models. In a pipeline, it consists of the means of the stages. A stage's mean is
/// over the carriers with the most steps, each of which contributes the part of the stage that it
/// has.
struct WholeModel {
  std::vector<float> parameters;
  double spread = 0;                 ///< Root mean square distance of the models from their mean.
  std::vector<std::uint64_t> steps;  ///< In a pipeline, the steps of each stage.
  std::string problem;               ///< Why there are no parameters. Empty if there are some.
};
WholeModel whole_model(std::span<const LastModel* const> peers,
                       const std::vector<SlicedStage>& stages);

}  // namespace gv
