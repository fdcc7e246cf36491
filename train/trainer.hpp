// How one replica learns: the live parameters, the optimiser, the data, and the jobs run on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "train/data_set.hpp"
#include "train/model.hpp"
#include "train/spec.hpp"

namespace gv {

/// Everything that fixes the course of one replica's training.
struct TrainerSpec {
  ModelSpec model;
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  std::size_t batch = 64;
  std::uint64_t steps = 0;  ///< The whole budget; schedules end here.
  std::uint64_t seed = 1;   ///< Of the run: the same initial model for every peer.
  std::uint64_t peer = 0;   ///< This replica's number: its own order of samples and dropout.
};

/// The optimiser's share of a checkpoint: named vectors as long as the parameters, and the step.
struct OptimizerState {
  std::vector<std::pair<std::string, std::vector<float>>> vectors;  ///< e.g. {"momentum", ...}.
  std::uint64_t step = 0;  ///< Local steps taken: samplers and schedules go on here.
  std::uint64_t updates =
      0;  ///< Updates since the optimiser last started afresh (bias corrections).
};

/// Owns the live parameter vector. Not thread-safe: whoever runs jobs owns it meanwhile.
class Trainer {
 public:
  /// `shard` is what this replica trains on; it is shared and immutable.
  Trainer(TrainerSpec spec, std::shared_ptr<const DataSet> shard);
  Trainer(Trainer&&) noexcept;
  ~Trainer();

  const Layout& layout() const;
  std::uint64_t step() const;
  double learning_rate() const;  ///< Of the next step.

  /// Takes `count` optimiser steps (fewer if the budget ends first; none beyond it) and returns the
  /// training score summed over them.
  Score run_steps(std::uint64_t count);

  /// x += scale * force, the only way a consensus rule changes the live parameters. Sizes must
  /// match.
  void add(std::span<const float> force, float scale);

  std::span<const float> parameters() const;

  /// Replaces parameters and position (a downloaded model): the optimiser starts afresh, the
  /// schedule and sampler go on at `step`.
  void adopt(std::span<const float> parameters, std::uint64_t step);

  /// What a resumed run needs so that training goes on bit for bit.
  OptimizerState optimizer_state() const;
  /// The inverse. Returns why it does not fit, having changed nothing, or an empty string.
  std::string restore(std::span<const float> parameters, const OptimizerState& state);

  /// Gathers the batches of the next steps while there is nothing else to do; changes no result.
  void prefetch();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gv
