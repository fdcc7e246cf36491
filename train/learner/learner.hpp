// The port behind which all that learns stands: the built-in trainer, the simulator's stand-ins, a
// user's own loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "train/learner/hyperparameters.hpp"
#include "train/learner/layout.hpp"
#include "train/learner/score.hpp"

namespace gv {

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

/// What a learner also offers if it can be a member of a population.
class Tunable {
 public:
  virtual ~Tunable() = default;

  virtual Hyperparameters hyperparameters() const = 0;
  /// They may be set between steps; nothing else changes.
  virtual void set_hyperparameters(const Hyperparameters& hyperparameters) = 0;
  /// The mean loss on samples that it does not learn from.
  virtual double validation_loss() = 0;
};

/// One copy of a model that learns. Those who own one give it tasks and change its parameters
/// between them; it knows nothing of other peers.
///
/// Only the functions without a default must be written. The defaults are those of a learner whose
/// optimiser keeps nothing from step to step. One that keeps vectors overrides all functions that
/// mention the optimiser.
///
/// Not thread-safe, but for stop(): while a task runs, the thread that runs it owns this. A learner
/// may carry out a task by waiting for another thread, as a user's loop that drives itself does.
class Learner {
 public:
  /// Changes a gradient before the optimiser gets it.
  using Direct = std::function<void(std::span<float> gradient)>;

  virtual ~Learner() = default;

  // What it is.

  virtual const Layout& layout() const = 0;
  /// Dense layers that can give their gradient as two factors; ascending.
  virtual std::vector<DenseWeights> dense_weights() const { return {}; }
  /// Samples that it learns from, by which its weight in a mean may go.
  virtual std::size_t samples() const { return 1; }

  // Its model. All vectors of a model, gradient or change have layout().size() floats.

  virtual std::span<const float> parameters() const = 0;
  /// The same, to be changed between tasks and by `Direct`. Their address stays.
  virtual std::span<float> live_parameters() = 0;
  /// Optimiser steps made.
  virtual std::uint64_t step() const = 0;
  /// Learning rate of the next step, if its batch has the size of the last.
  virtual double learning_rate() const = 0;

  // Its tasks.

  /// Takes `count` optimiser steps, or fewer if its budget ends first or its user's loop has ended,
  /// and returns the training score summed over them. `direct` may be empty.
  virtual Score run_steps(std::uint64_t count, const Direct& direct = {}) = 0;

  /// The gradient of the mean loss over the next `samples` samples into all of `out`; the score is
  /// summed over them. `ready`, if given, is told of the parts of `out` that are final while others
  /// are computed. Changes neither parameters nor position, so that it may be asked again. For the
  /// weights at the offsets `factored`, of dense_weights(), `out` gets the two factors instead.
  virtual Score gradient(std::size_t samples, std::span<float> out, const ReadyRange& ready = {},
                         std::span<const std::size_t> factored = {}) = 0;

  /// One optimiser step with `mean`, a gradient that is the mean over `samples` samples of all
  /// peers (0: of as many as one of its own steps takes). The samples of the last gradient(), if it
  /// came after the last update, are then used up.
  virtual void update(std::span<const float> mean, std::size_t samples = 0) = 0;

  /// Makes local steps of `samples` samples each, from the present model (the anchor), and writes
  /// the anchor minus the resulting model into all of `out`; the score is summed over them. Like
  /// gradient() it may be asked again: model and step are then as before, and the new state of the
  /// optimiser is kept apart until end_local_steps().
  virtual Score local_steps(std::uint64_t steps, std::size_t samples, std::span<float> out);

  /// Ends `steps` local steps: the model becomes `parameters`, however these were computed. The
  /// optimiser goes on from where the last local_steps() left it, if nothing came since.
  virtual void end_local_steps(std::span<const float> parameters, std::uint64_t steps);

  // Its place in the run, and models of other peers.

  /// Continues at another step, with everything else as it is.
  virtual void go_on_at(std::uint64_t step) = 0;

  /// Begins with a downloaded model, at its step: the optimiser is reset.
  virtual void adopt(std::span<const float> parameters, std::uint64_t step);

  /// Takes over another peer's model and its step. The optimiser stays its own. If the model is
  /// further on, our last gradient or local steps are part of it and count as used.
  virtual void adopt_model(std::span<const float> parameters, std::uint64_t step);

  /// Takes over another replica's model with its copy_optimizer() and updates(). Given the same
  /// gradients, both then continue bit for bit alike. Samples count as in adopt_model(). The caller
  /// has checked the sizes.
  virtual void adopt_state(std::span<const float> parameters, std::span<const float> optimizer,
                           std::uint64_t step, std::uint64_t updates);

  /// Floats that the optimiser keeps from step to step, and a copy of them in a fixed order.
  virtual std::size_t optimizer_size() const { return 0; }
  virtual void copy_optimizer(std::span<float> /*out*/) const {}
  /// Updates since the optimiser was last reset.
  virtual std::uint64_t updates() const { return step(); }

  /// What a checkpoint has to hold besides the parameters so that training continues bit for bit.
  virtual OptimizerState optimizer_state() const;
  /// The inverse. Returns an empty string, or why it does not fit; then nothing is changed.
  virtual std::string restore(std::span<const float> parameters, const OptimizerState& state);

  /// Null if it cannot be a member of a population.
  virtual Tunable* tunable() { return nullptr; }

  // What it is told.

  /// From now on every update changes the parameters by `factor` times as much; 1 at first.
  virtual void set_update_factor(double factor) = 0;

  /// How much of the swarm's budget is used up, from 0 to 1. A learner may follow it in its
  /// learning rate.
  virtual void set_progress(double /*fraction*/) {}

  /// The next task may come at any time: whatever can be prepared for it may be prepared now.
  virtual void prefetch() {}

  /// Training is to end soon. May be called from any thread. A learner that drives itself is to end
  /// its loop; the others need not care, as they get no more tasks.
  virtual void stop() {}

  /// True if it can make no more steps, because its user's loop has ended. Its peer then leaves.
  virtual bool has_ended() const { return false; }
};

}  // namespace gv
