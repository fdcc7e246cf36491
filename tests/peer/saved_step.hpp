// Writes checkpoints as a peer does, for tests that read them.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "peer/config/task.hpp"

namespace gv {

/// Writes a checkpoint of the initial model at this step. `text` is the stored config.
inline void save_step(const std::filesystem::path& checkpoints, const Config& config,
                      const std::string& text, std::uint64_t step) {
  const Task task = load_task(config, 0);
  REQUIRE(task.problems.empty());
  std::unique_ptr<Learner> learner = learner_of(task);
  const std::span<const float> own = learner->parameters();
  const std::vector<float> model(own.begin(), own.end());
  learner->adopt(model, step);
  const auto replica = first_replica(task, 0, std::move(learner));
  REQUIRE(save_replica(checkpoints, *replica, config, text).empty());
}

}  // namespace gv
