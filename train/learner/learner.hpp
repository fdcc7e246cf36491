// The interface of everything that learns: the built-in trainer, the simulator's stand-ins, a
// user's own loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
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
  /// The name and the values of each vector, for example {"momentum", {...}}.
  std::vector<std::pair<std::string, std::vector<float>>> vectors;
  std::uint64_t step = 0;  ///< Local steps taken. Schedules continue from here.
  /// Number of updates since the optimiser was last reset (for bias corrections).
  std::uint64_t updates = 0;
  /// The sampler's position (see Sampler). Older checkpoints have none, because all their steps had
  /// batches of the same size.
  std::optional<std::uint64_t> position;
  /// Set only if the replica has its own hyper-parameters, different from the config's.
  std::optional<Hyperparameters> hyperparameters;
};

/// The additional interface of a learner that can be a member of a population.
class Tunable {
 public:
  virtual ~Tunable() = default;

  virtual Hyperparameters hyperparameters() const = 0;
  /// Changes the hyperparameters between steps, and nothing else.
  virtual void set_hyperparameters(const Hyperparameters& hyperparameters) = 0;
  /// The mean loss on samples that the learner does not train on.
  virtual double validation_loss() = 0;
};

/// The additional interface of a learner that has no model. Instead, its program supplies one array
/// after another to be averaged. The functions are called on the thread that runs the learner's
/// tasks.
class ArraySource {
 public:
  virtual ~ArraySource() = default;

  /// Waits for the program's next array and returns its number of floats, or nullopt if none will
  /// come.
  virtual std::optional<std::size_t> await() = 0;
  /// Like await(), but does not wait. Returns 0 if no array will come, and nullopt if none has come
  /// yet. After nullopt, `later` is called once, on any thread, when an array has come or it is
  /// certain that none will come. `later` must return at once; the `later` of another peek()
  /// replaces it.
  virtual std::optional<std::size_t> peek(std::function<void()> later) = 0;
  /// Copies the array, multiplied by its weight, to all of `out`. Returns the weight.
  virtual float read(std::span<float> out) = 0;
  /// Completes the program's call for the array. `mean` is the mean of the arrays that `peers`
  /// peers have read, and `weights` is the sum of their weights.
  virtual void write(std::span<const float> mean, float weights, std::size_t peers) = 0;
};

/// One copy of a model that learns. Its owner gives it tasks, and changes its parameters between
/// tasks. A learner knows nothing about other peers.
///
/// Only functions without a default must be implemented. The defaults are for a learner whose
/// optimiser keeps no state between steps. A learner that keeps such state overrides all functions
/// that mention the optimiser.
///
/// Not thread-safe except for stop(): while a task runs, the thread that runs it owns the learner.
/// A learner may carry out a task by waiting for another thread, for example a user's own loop.
class Learner {
 public:
  /// A function that changes a gradient before the optimiser gets it.
  using Direct = std::function<void(std::span<float> gradient)>;
  /// A function that changes parameters.
  using Change = std::function<void(std::span<float> parameters)>;

  virtual ~Learner() = default;

  // ---- Its properties ----

  virtual const Layout& layout() const = 0;
  /// Dense layers that can give their gradient as two factors, ascending.
  virtual std::vector<DenseWeights> dense_weights() const { return {}; }
  /// True if the learner can compute a gradient from any requested number of samples.
  virtual bool takes_any_batch() const { return true; }
  /// Number of samples that the learner trains on. The learner's weight in a mean may depend on it.
  virtual std::size_t samples() const { return 1; }

  // ---- Its model: models, gradients and changes have layout().size() floats ----

  virtual std::span<const float> parameters() const = 0;
  /// The parameters, which may be changed between tasks and by a `Direct`. Their address never
  /// changes, but the view must be requested again after a task, because the model may be elsewhere
  /// during a task.
  virtual std::span<float> live_parameters() = 0;
  /// Number of optimiser steps made.
  virtual std::uint64_t step() const = 0;
  /// Learning rate of the next step, if that step's batch has the same size as the last one.
  virtual double learning_rate() const = 0;

  // ---- Its tasks ----

  /// Takes `count` optimiser steps, or fewer if the budget or the user's loop ends first. Returns
  /// the training score summed over these steps. `direct` may be empty.
  virtual Score run_steps(std::uint64_t count, const Direct& direct = {}) = 0;

  /// Writes the gradient of the mean loss over the next `samples` samples into all of `out` and
  /// returns the summed score. Calls `ready`, if given, for each part of `out` that is final while
  /// other parts are still being computed. Does not change parameters or position, so it may be
  /// called again. For the weights at the offsets `factored`, which must be from dense_weights(),
  /// `out` gets the two factors instead of the gradient.
  virtual Score gradient(std::size_t samples, std::span<float> out, const ReadyRange& ready = {},
                         std::span<const std::size_t> factored = {}) = 0;

  /// Makes one optimiser step with `mean`, the mean gradient over `samples` samples of all peers
  /// (0: as many as in one of its own steps). If gradient() was called after the last update, the
  /// samples of that call are then used up.
  virtual void update(std::span<const float> mean, std::size_t samples = 0) = 0;
  /// Makes a change that contains values from other peers. If the learner has a bound, parameters
  /// beyond the bound are then clamped (see held()).
  virtual void change_by_others(const Change& change) { change(live_parameters()); }
  /// Number of changes after which parameters were clamped to a bound, because they had become
  /// absurdly large. Counts updates, ends of local steps, changes by others and, after
  /// hold_steps(), own steps. Equal at all learners with the same initial model and updates.
  virtual std::uint64_t held() const { return 0; }

  /// If `always` is true, parameters are also clamped to the bound after the learner's own steps,
  /// and a model beyond the bound may not stay that large. Three models raise the bound if they are
  /// larger: the present one, one restored from a checkpoint, and one adopted before the first
  /// step. Without this rule, a model that others have made large could grow further by its own
  /// steps. The next change by others could then make it larger still.
  virtual void hold_steps(bool /*always*/) {}
  /// The bound of all values of the model while hold_steps() is on. Infinite for a learner without
  /// a bound.
  virtual float parameter_bound() const { return std::numeric_limits<float>::infinity(); }

  /// Makes local steps of `samples` samples each, starting from the present model (the anchor), and
  /// writes the anchor minus the resulting model into all of `out`. Returns the summed score. Like
  /// gradient() it may be called again: model and step are restored, and the optimiser's new state
  /// is kept separately until end_local_steps().
  virtual Score local_steps(std::uint64_t steps, std::size_t samples, std::span<float> out);

  /// Ends `steps` local steps: the model becomes `parameters`, however these were computed. The
  /// optimiser continues from where the last local_steps() left it, unless another task came in
  /// between.
  virtual void end_local_steps(std::span<const float> parameters, std::uint64_t steps);

  // ---- Its place in the run, and models of other peers ----

  /// Continues at another step. Everything else stays the same.
  virtual void go_on_at(std::uint64_t step) = 0;

  /// Starts from a downloaded model at its step, and resets the optimiser.
  virtual void adopt(std::span<const float> parameters, std::uint64_t step);

  /// Takes over another peer's model and step, but keeps our own optimiser. If the other model is
  /// at a later step, it includes our last gradient or local steps, so their samples count as used.
  virtual void adopt_model(std::span<const float> parameters, std::uint64_t step);

  /// Takes over another replica's model, its optimiser's state from copy_optimizer(), and its
  /// updates(). Given the same gradients, both learners then continue with the same bits. Counts
  /// used samples as in adopt_model(). The caller must have checked the sizes.
  virtual void adopt_state(std::span<const float> parameters, std::span<const float> optimizer,
                           std::uint64_t step, std::uint64_t updates);

  /// The number of floats that the optimiser keeps between steps. copy_optimizer() copies them in a
  /// fixed order.
  virtual std::size_t optimizer_size() const { return 0; }
  virtual void copy_optimizer(std::span<float> /*out*/) const {}
  /// True if an optimiser like ours could have produced this state, which comes from another peer.
  /// All values must be finite.
  virtual bool is_possible(std::span<const float> /*optimizer*/) const { return true; }
  /// Number of updates since the optimiser was last reset.
  virtual std::uint64_t updates() const { return step(); }

  /// The state besides the parameters that a checkpoint needs so that training continues bit for
  /// bit.
  virtual OptimizerState optimizer_state() const;
  /// Restores a checkpoint. Returns an empty string on success. Otherwise returns why the
  /// checkpoint does not fit, and changes nothing.
  virtual std::string restore(std::span<const float> parameters, const OptimizerState& state);

  /// The Tunable interface; null if this learner cannot be a member of a population.
  virtual Tunable* tunable() { return nullptr; }

  /// Measures the model on the test data. Returns the accuracy, or R2 for data with targets. Only
  /// for a learner with test data.
  virtual double test_merit() { return 0; }
  /// The ArraySource interface; null if this learner has a model.
  virtual ArraySource* arrays() { return nullptr; }

  // ---- Information from its owner ----

  /// Multiplies every update by `factor` from now on. The factor is 1 at first.
  virtual void set_update_factor(double factor) = 0;

  /// Makes later steps of run_steps() use batches of `growth` times the usual size.
  virtual void set_batch_growth(std::uint64_t /*growth*/) {}

  /// Sets the fraction of the swarm's budget that is used up. A learner may use it for its learning
  /// rate.
  virtual void set_progress(double /*fraction*/) {}

  /// For leased data: the samples of the next steps begin at this position, counted over all epochs
  /// in an order that is the same at all peers.
  virtual void read_from(std::uint64_t /*position*/) {}

  /// Lets the learner prepare for the next task, which may come at any time.
  virtual void prefetch() {}

  /// Announces that training will end soon. May be called from any thread. A learner with its own
  /// loop must end it; others can ignore this, because they get no more tasks.
  virtual void stop() {}

  /// True if no more steps are possible because the user's loop has ended. The learner's peer then
  /// leaves.
  virtual bool has_ended() const { return false; }
};

}  // namespace gv
