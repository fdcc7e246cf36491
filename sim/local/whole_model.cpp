// Reads peers' checkpoints and assembles a model from them.
#include "sim/local/whole_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "peer/config/stage_cut.hpp"
#include "peer/node/stage_replica.hpp"
#include "sim/mean.hpp"
#include "train/checkpoint/checkpoint.hpp"
#include "train/checkpoint/safetensors.hpp"
#include "train/learner/group_place.hpp"
#include "train/model_stages.hpp"

namespace gv {

std::vector<SlicedStage> sliced_stages_of(const Config& config, const TestSet& test) {
  if (config.run.mode != ModeKind::pipeline) return {};
  return sliced_stages(test.model, test.data->shape,
                       stage_ends(config, test.model, test.data->shape),
                       config.pipeline.group > 1 ? slices_of_stage : 0);
}

LastModel read_last_model(const std::filesystem::path& folder, const Layout& whole,
                          const std::vector<SlicedStage>& stages) {
  LastModel last;
  const std::filesystem::path checkpoints = folder / "checkpoints";
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const std::filesystem::path own = stage_folder(checkpoints, stage);
    if (!std::filesystem::exists(own)) continue;
    const auto held_by = [&](const std::map<std::string, std::string>& notes) {
      const Range all{0, stages[stage].slices()};
      const Range held = slices_of(notes).value_or(all);
      return stages[stage].held(held.end <= all.end ? held : all);
    };
    LoadedCheckpoint loaded =
        load_newest_checkpoint(own, [&](const auto& notes) { return held_by(notes).layout; });
    if (!loaded.checkpoint) continue;
    last.ranges.emplace(stage, held_by(loaded.checkpoint->metadata).ranges);
    last.stages.emplace(stage, *std::move(loaded.checkpoint));
  }
  if (!stages.empty()) return last;
  LoadedCheckpoint loaded = load_newest_checkpoint(checkpoints, whole);
  if (!loaded.checkpoint) return last;
  last.parameters = std::move(loaded.checkpoint->parameters);
  last.step = loaded.checkpoint->optimizer.step;
  return last;
}

WholeModel whole_model(std::span<const LastModel* const> peers,
                       const std::vector<SlicedStage>& stages) {
  WholeModel whole;
  if (stages.empty()) {
    std::vector<std::span<const float>> models;
    for (const LastModel* peer : peers) {
      if (!peer->parameters.empty()) models.emplace_back(peer->parameters);
    }
    whole.parameters = mean_of(models);
    if (models.empty()) whole.problem = "no peer left a checkpoint that can be read";
    whole.spread = spread_of(models, whole.parameters);
    return whole;
  }
  double squares = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    std::uint64_t newest = 0;
    std::vector<HeldModel> replicas;
    for (const LastModel* peer : peers) {
      const auto own = peer->stages.find(stage);
      if (own == peer->stages.end()) continue;
      const std::uint64_t step = own->second.optimizer.step;
      if (step > newest) replicas.clear();
      newest = std::max(newest, step);
      if (step == newest) replicas.push_back({peer->ranges.at(stage), own->second.parameters});
    }
    if (replicas.empty()) {
      return {.problem = fmt::format("no peer left a checkpoint of stage {}", stage)};
    }
    const std::vector<float> mean = mean_of_held(stages[stage].plan().layout.size(), replicas);
    if (mean.empty()) {
      return {.problem = fmt::format("no peer left a checkpoint of some slices of stage {} at "
                                     "step {}, which others have",
                                     stage, newest)};
    }
    squares += std::pow(spread_of_held(replicas, mean), 2);
    whole.parameters.insert(whole.parameters.end(), mean.begin(), mean.end());
    whole.steps.push_back(newest);
  }
  whole.spread = std::sqrt(squares);
  return whole;
}

}  // namespace gv
