// How one replica learns: the live parameters, the optimiser, the data, and the jobs run on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
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
  std::size_t batch = 64;     ///< Samples of a step of run_steps(); schedules scale by it.
  std::size_t batch_max = 0;  ///< The most gradient() is asked for; 0 means `batch`.
  std::size_t threads = 1;    ///< Of run_steps(): more than one step without locks (Hogwild).
  std::uint64_t steps = 0;    ///< The whole budget; schedules end here.
  std::uint64_t seed = 1;     ///< Of the run: the same initial model for every peer.
  std::uint64_t peer = 0;     ///< This replica's number: its own order of samples and dropout.
};

/// The optimiser's share of a checkpoint: named vectors as long as the parameters, and where the
/// schedule and the sampler go on.
struct OptimizerState {
  std::vector<std::pair<std::string, std::vector<float>>> vectors;  ///< e.g. {"momentum", ...}.
  std::uint64_t step = 0;  ///< Local steps taken: schedules go on here.
  /// Updates since the optimiser last started afresh (bias corrections).
  std::uint64_t updates = 0;
  /// Where the sampler goes on (see Sampler). Older checkpoints have none: all their steps were of
  /// one batch.
  std::optional<std::uint64_t> position;
  /// Where they are the replica's own and not the config's.
  std::optional<Hyperparameters> hyperparameters;
};

/// Calls `work` with 0 to count - 1, all at once if it can, and returns when all calls have.
using RunTogether =
    std::function<void(std::size_t count, const std::function<void(std::size_t)>& work)>;

/// Owns the live parameter vector. Not thread-safe: while a job runs, the thread that runs it owns
/// this.
class Trainer {
 public:
  using Direct = std::function<void(std::span<float> gradient)>;

  /// `shard` is what this replica trains on; it is shared and immutable.
  Trainer(TrainerSpec spec, std::shared_ptr<const DataSet> shard);
  Trainer(Trainer&&) noexcept;
  ~Trainer();

  const Layout& layout() const;
  const ModelSpec& model_spec() const;
  std::vector<DenseWeights> dense_weights() const;  ///< As Model has them.
  std::uint64_t step() const;
  std::size_t shard_samples() const;
  double learning_rate() const;  ///< Of the next step, if its batch is that of the last.

  /// What schedule and optimiser go by. Set between steps; nothing else changes. At first
  /// they are the spec's; restore() leaves them as they are.
  Hyperparameters hyperparameters() const;
  void set_hyperparameters(const Hyperparameters& hyperparameters);

  /// Takes `count` optimiser steps (fewer if the budget ends first; none beyond it) and returns the
  /// training score summed over them. Each gradient passes through `direct` before its step, if
  /// there is one: what the optimiser is given is what that makes of it.
  Score run_steps(std::uint64_t count, const Direct& direct = {});

  /// From here on run_steps() without `direct` makes its steps in `spec.threads` workers at once,
  /// which `together` runs: see Hogwild. Plain SGD alone.
  void step_together(RunTogether together);

  /// The gradient of the mean loss over the next `samples` samples of the shard (1 to batch_max)
  /// into all of `out` (layout().size() floats); the score is summed over them. `ready`, if there
  /// is one, hears of the parts of `out` that are final while the others are computed. Changes
  /// neither parameters nor position: asked again, it gives the same bits. The first call with a
  /// size that is not one of the last two costs some milliseconds more. `factored`: see
  /// Model::gradient().
  Score gradient(std::size_t samples, std::span<float> out, const ReadyRange& ready = {},
                 std::span<const std::size_t> factored = {});

  /// One optimiser step with `gradient` (layout().size() floats, one's own or a mean over many
  /// replicas) at this step's learning rate, whatever the budget. `batch`: samples of everybody
  /// that it is the mean of, which the linear scaling rule goes by; 0 = the spec's. The samples of
  /// the last gradient(), if it came after the last update, are then used up.
  void update(std::span<const float> gradient, std::size_t batch = 0);

  /// Steps of this replica alone, of `samples` samples each, from the model as it is: what they
  /// take from it (the anchor minus where they come to) into all of `out`; the score is summed over
  /// them. Like gradient() it changes nothing, so that asked again it gives the same bits; what
  /// optimiser and sampler come to is kept apart until the steps end.
  Score local_steps(std::uint64_t steps, std::size_t samples, std::span<float> out);

  /// Ends `steps` local steps: the model becomes `parameters`, however these were computed.
  /// Optimiser and sampler go on from where the last local_steps() left them, if nothing came
  /// since.
  void end_local_steps(std::span<const float> parameters, std::uint64_t steps);

  /// x += scale * force, the way an exchange changes the live parameters. Sizes must match.
  void add(std::span<const float> force, float scale);

  std::span<const float> parameters() const;
  /// The same, for a rule of mixing to work on between steps. They stay where they are.
  std::span<float> live_parameters();

  /// Goes on at another step with everything else as it is.
  void go_on_at(std::uint64_t step);

  /// Replaces parameters and position (a downloaded model): the optimiser starts afresh, the
  /// schedule and sampler go on at `step`.
  void adopt(std::span<const float> parameters, std::uint64_t step);

  /// All that decides what the next gradient does to the parameters, in one piece: parameters, then
  /// the optimiser's vectors in a fixed order, `state_size()` floats in all.
  std::size_t state_size() const;
  void copy_state(std::span<float> out) const;
  /// The optimiser's vectors alone, in that order, behind what is in `out`.
  void append_optimizer(std::vector<float>& out) const;
  std::uint64_t updates() const;  ///< Since the optimiser last started afresh.

  /// Takes over another replica's copy_state(), step() and updates(). Given the same gradients,
  /// both then go on bit for bit alike. The shard is this replica's own, and so is its sampler:
  /// what was drawn for a gradient counts as used if the state is further on. The size must be
  /// state_size(), so what comes from outside is looked at before.
  void adopt_state(std::span<const float> state, std::uint64_t step, std::uint64_t updates);

  /// Takes over another replica's parameters and step() alone: optimiser and sampler stay this
  /// replica's own, and have made their local steps if the model is further on.
  void adopt_model(std::span<const float> parameters, std::uint64_t step);

  /// What a resumed run needs so that training goes on bit for bit.
  OptimizerState optimizer_state() const;
  /// The inverse. Returns why it does not fit, having changed nothing, or an empty string.
  std::string restore(std::span<const float> parameters, const OptimizerState& state);

  /// Gathers the batch of the next step, if it is as large as the last, while there is nothing else
  /// to do; changes no result.
  void prefetch();

 private:
  Score take_steps(std::uint64_t count, std::size_t samples, const Direct& direct = {});

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gv
