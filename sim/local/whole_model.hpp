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

namespace gv {

/// The newest sound checkpoint of a peer: a whole model, or the stages that it carried.
struct LastModel {
  std::vector<float> parameters;             ///< Empty in a pipeline, or without a checkpoint.
  std::map<std::size_t, Checkpoint> stages;  ///< Stages, in a pipeline.
  std::uint64_t step = 0;                    ///< Step of the parameters.

  bool is_there() const { return !parameters.empty() || !stages.empty(); }
};

/// Layouts of a pipeline's stages; empty in another mode.
std::vector<Layout> layouts_of_stages(const Config& config, const TestSet& test);

/// `folder` is the peer's, which holds `checkpoints`.
LastModel read_last_model(const std::filesystem::path& folder, const Layout& whole,
                          const std::vector<Layout>& stages);

/// The mean of all models. In a pipeline, for each stage the mean of its replicas with the most
/// steps.
struct WholeModel {
  std::vector<float> parameters;
  double spread = 0;                 ///< sqrt of the mean squared distance from it.
  std::vector<std::uint64_t> steps;  ///< Pipeline: steps of each stage.
  std::string problem;               ///< Why there are no parameters; empty if there are.
};
WholeModel whole_model(std::span<const LastModel* const> peers, const std::vector<Layout>& stages);

/// Returns why it could not be written, or an empty string.
std::string write_model(const std::filesystem::path& file, const Layout& layout,
                        std::span<const float> parameters,
                        const std::map<std::string, std::string>& metadata);

}  // namespace gv
