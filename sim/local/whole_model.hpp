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

/// The newest valid checkpoint of a peer: a whole model, or the stages that it carried.
struct LastModel {
  std::vector<float> parameters;             ///< Empty in a pipeline, or without a checkpoint.
  std::map<std::size_t, Checkpoint> stages;  ///< The stages of a pipeline's peer, by number.
  /// For each stage, the ranges of its parameters that the peer has.
  std::map<std::size_t, std::vector<Range>> ranges;
  std::uint64_t step = 0;  ///< The step of the parameters.

  bool is_there() const { return !parameters.empty() || !stages.empty(); }
};

/// A pipeline's stages; empty in other modes.
std::vector<SlicedStage> sliced_stages_of(const Config& config, const TestSet& test);

/// Reads the last model below a peer's `folder`, which contains `checkpoints`.
LastModel read_last_model(const std::filesystem::path& folder, const Layout& whole,
                          const std::vector<SlicedStage>& stages);

/// The mean of all models. In a pipeline, it consists of each stage's mean over the carriers with
/// the most steps, where each carrier contributes the part of the stage that it has.
struct WholeModel {
  std::vector<float> parameters;
  double spread = 0;                 ///< Root mean square distance of the models from their mean.
  std::vector<std::uint64_t> steps;  ///< In a pipeline, the steps of each stage.
  std::string problem;               ///< Why there are no parameters. Empty if there are.
};
WholeModel whole_model(std::span<const LastModel* const> peers,
                       const std::vector<SlicedStage>& stages);

}  // namespace gv
