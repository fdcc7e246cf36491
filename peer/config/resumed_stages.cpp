// Reads the stages that a peer carried when it stopped.
#include "peer/config/resumed_stages.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "peer/node/facts.hpp"
#include "train/checkpoint/checkpoint.hpp"

namespace gv {

StartingPoint resumed_stages(std::unique_ptr<StageReplica> replica,
                             const std::filesystem::path& checkpoints) {
  StageLearner& learner = replica->learner();
  std::vector<Fact> facts;
  std::vector<StageState> copies;
  std::map<std::uint32_t, std::pair<ModelVersion, Checkpoint>> found;
  std::optional<ModelVersion> newest;
  std::optional<Problem> unfit;
  for (std::uint32_t stage = 0; stage < learner.stages(); ++stage) {
    const std::filesystem::path folder = stage_folder(checkpoints, stage);
    if (!std::filesystem::exists(folder)) continue;
    LoadedCheckpoints loaded = load_checkpoints(folder, [&](const auto& notes) {
      learner.take_up(stage, held_slices(learner, stage, notes));
      return learner.held_layout(stage);
    });
    for (const auto& [file, why] : loaded.refused) {
      facts.push_back(CheckpointRefused{.why = file.string() + ": " + why});
    }
    if (loaded.unfit && !unfit) unfit = unfit_checkpoint(loaded.unfit->first, loaded.unfit->second);
    for (Checkpoint& checkpoint : loaded.checkpoints) {
      const auto version = version_of(checkpoint.metadata);
      if (!version) continue;
      learner.take_up(stage, held_slices(learner, stage, checkpoint.metadata));
      const std::string problem =
          learner.restore(stage, checkpoint.parameters, checkpoint.optimizer);
      if (!problem.empty()) {
        facts.push_back(CheckpointRefused{.why = folder.string() + ": " + problem});
        if (!unfit) unfit = unfit_checkpoint(folder, problem);
        continue;
      }
      for (const std::uint32_t part : replica->held_parts()) {
        if (replica->numbers().stage_of(part) != stage) continue;
        copies.push_back({part, *version, replica->state(part)});
      }
      if (!newest || is_before(*newest, *version)) newest = version;
      found.try_emplace(stage, *version, std::move(checkpoint));
    }
  }
  std::size_t stages = 0;
  for (auto& [stage, own] : found) {
    if (own.first == *newest) {
      replica->restore({.stage = stage,
                        .parameters = own.second.parameters,
                        .optimizer = std::move(own.second.optimizer),
                        .notes = std::move(own.second.metadata)});
      ++stages;
    } else {
      learner.release(stage);
    }
  }
  const std::vector<std::uint32_t> parts = replica->held_parts();
  StartingPoint point{.replica = std::move(replica), .facts = std::move(facts)};
  if (stages == 0) {
    // The settings differ from those of the checkpoints, and a fresh run would overwrite the
    // checkpoints.
    if (unfit) {
      point.problems.push_back(*std::move(unfit));
      return point;
    }
    point.facts.push_back(ResumedFromNothing{.folder = checkpoints.string()});
    return point;
  }
  point.step = newest->step;
  point.version = newest;
  point.parts = parts;
  point.copies = std::move(copies);
  point.facts.push_back(
      Resumed{.from = checkpoints.string(), .step = point.step, .stages = stages});
  return point;
}

}  // namespace gv
