// Trains one replica: the live parameters, the optimiser, the data, and the jobs run on them.
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

/// Everything that determines one replica's training.
struct TrainerSpec {
  ModelSpec model;
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  std::size_t batch = 64;     ///< Samples of a step of run_steps(); schedules scale by it.
  std::size_t batch_max = 0;  ///< The most samples for gradient(); 0 means `batch`.
  std::size_t threads = 1;    ///< Workers of run_steps(); several step without locks (Hogwild).
  std::uint64_t steps = 0;    ///< The whole budget; schedules end here.
  std::uint64_t seed = 1;     ///< Of the run: the same initial model for every peer.
  std::uint64_t peer = 0;     ///< This replica's number: its own order of samples and dropout.
};

/// The optimiser's part of a checkpoint: named vectors as long as the parameters, and the positions
/// of the schedule and the sampler.
struct OptimizerState {
  std::vector<std::pair<std::string, std::vector<float>>> vectors;  ///< e.g. {"momentum", ...}.
  std::uint64_t step = 0;  ///< Local steps taken: schedules go on here.
  /// Updates since the optimiser was last reset (for bias corrections).
  std::uint64_t updates = 0;
  /// The sampler's position (see Sampler). Older checkpoints have none: all their steps had batches
  /// of one size.
  std::optional<std::uint64_t> position;
  /// Set if they are the replica's own and not the config's.
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

  /// This replica trains on `shard`, which is shared and immutable.
  Trainer(TrainerSpec spec, std::shared_ptr<const DataSet> shard);
  Trainer(Trainer&&) noexcept;
  ~Trainer();

  const Layout& layout() const;
  const ModelSpec& model_spec() const;
  std::vector<DenseWeights> dense_weights() const;  ///< As Model has them.
  std::uint64_t step() const;
  std::size_t shard_samples() const;
  double learning_rate() const;  ///< Of the next step, if its batch has the size of the last.

  /// The hyper-parameters of schedule and optimiser, at first the spec's. They may be set between
  /// steps; nothing else changes. restore() leaves them as they are.
  Hyperparameters hyperparameters() const;
  void set_hyperparameters(const Hyperparameters& hyperparameters);

  /// Takes `count` optimiser steps (fewer if the budget ends first; none beyond it) and returns the
  /// training score summed over them. If `direct` is given, it changes each gradient before the
  /// optimiser gets it.
  Score run_steps(std::uint64_t count, const Direct& direct = {});

  /// From now on run_steps() without `direct` makes its steps in `spec.threads` workers at once,
  /// which `together` runs (see Hogwild). Only for plain SGD.
  void step_together(RunTogether together);

  /// The gradient of the mean loss over the next `samples` samples of the shard (1 to batch_max)
  /// into all of `out` (layout().size() floats); the score is summed over them. `ready`, if given,
  /// is told of the parts of `out` that are final while the others are computed. Changes neither
  /// parameters nor position: asked again, it gives the same bits. The first call with a
  /// size that is not one of the last two costs some milliseconds more. `factored`: see
  /// Model::gradient().
  Score gradient(std::size_t samples, std::span<float> out, const ReadyRange& ready = {},
                 std::span<const std::size_t> factored = {});

  /// One optimiser step with `gradient` (layout().size() floats, one's own or a mean over many
  /// replicas) at this step's learning rate, whatever the budget. `batch` is the number of samples
  /// of all peers in that mean, for the linear scaling rule; 0: the spec's. The samples of the last
  /// gradient(), if it came after the last update, are then used up.
  void update(std::span<const float> gradient, std::size_t batch = 0);

  /// Makes local steps of `samples` samples each, from the present model (the anchor), and writes
  /// the anchor minus the resulting model into all of `out`; the score is summed over them. Like
  /// gradient() it changes nothing, so asked again it gives the same bits. The new state of
  /// optimiser and sampler is kept apart until end_local_steps().
  Score local_steps(std::uint64_t steps, std::size_t samples, std::span<float> out);

  /// Ends `steps` local steps: the model becomes `parameters`, however these were computed.
  /// Optimiser and sampler go on from where the last local_steps() left them, if nothing came
  /// since.
  void end_local_steps(std::span<const float> parameters, std::uint64_t steps);

  /// x += scale * force, the way an exchange changes the live parameters. Sizes must match.
  void add(std::span<const float> force, float scale);

  std::span<const float> parameters() const;
  /// The same, for a mixing rule to change between steps. Their address stays.
  std::span<float> live_parameters();

  /// Continues at another step, with everything else as it is.
  void go_on_at(std::uint64_t step);

  /// Replaces parameters and position (by a downloaded model): the optimiser is reset, and schedule
  /// and sampler go on at `step`.
  void adopt(std::span<const float> parameters, std::uint64_t step);

  /// All state that determines what the next gradient does to the parameters, in one piece: the
  /// parameters, then the optimiser's vectors in a fixed order, `state_size()` floats in all.
  std::size_t state_size() const;
  void copy_state(std::span<float> out) const;
  /// Appends the optimiser's vectors alone, in that order, to `out`.
  void append_optimizer(std::vector<float>& out) const;
  std::uint64_t updates() const;  ///< Since the optimiser was last reset.

  /// Takes over another replica's copy_state(), step() and updates(). Given the same gradients,
  /// both then continue bit for bit alike. Shard and sampler stay this replica's own: samples drawn
  /// for a gradient count as used if the state is further on. The size must be state_size(), so the
  /// caller checks data from outside first.
  void adopt_state(std::span<const float> state, std::uint64_t step, std::uint64_t updates);

  /// Takes over only another replica's parameters and step(). Optimiser and sampler stay this
  /// replica's own, and count their local steps as made if the model is further on.
  void adopt_model(std::span<const float> parameters, std::uint64_t step);

  /// The state that a resumed run needs so that training continues bit for bit.
  OptimizerState optimizer_state() const;
  /// The inverse. Returns an empty string, or why it does not fit; then nothing is changed.
  std::string restore(std::span<const float> parameters, const OptimizerState& state);

  /// Gathers the batch of the next step in idle time, if it is as large as the last. Changes no
  /// result.
  void prefetch();

 private:
  Score take_steps(std::uint64_t count, std::size_t samples, const Direct& direct = {});

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gv
