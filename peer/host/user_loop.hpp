// Turns a user's own training loop into a learner. The loop runs on its own thread and meets the
// worker after each step, or when a gradient is to be summed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/time.hpp"
#include "peer/host/gradient_parts.hpp"
#include "train/learner/learner.hpp"

namespace gv {

/// Copies a model between the user's memory and one vector. The worker calls these functions only
/// while the loop waits in a call of UserLoop, or after the loop has left. Parameters are copied
/// only when another part of the peer needs them or has changed them, so most steps copy nothing.
struct UserModel {
  std::function<void(std::span<float> parameters)> read;  ///< Copies the user's parameters to the
                                                          ///< given memory.
  std::function<void(std::span<const float> parameters)> write;  ///< Copies the given parameters to
                                                                 ///< the user's memory.
  /// The number of floats, besides the parameters, that a peer needs to resume exactly, such as an
  /// optimiser's moments. All these floats must be finite.
  std::size_t state_size = 0;
  std::function<void(std::span<float> state)> read_state;
  std::function<void(std::span<const float> state)> write_state;
};

/// Copies a step's gradient between the user's memory and one vector, like UserModel.
struct UserGradient {
  std::function<void(std::span<float> gradient)> read;
  std::function<void(std::span<const float> gradient)> write;
};

/// The result of reduce().
struct Reduced {
  /// True if a newer model has replaced the one for which the gradient was computed. The loop must
  /// then compute the gradient again at the present parameters, and call reduce() again.
  bool again = false;
  bool is_over = false;     ///< True if training is over, so no sum will come.
  std::size_t samples = 0;  ///< Samples of all peers in the mean; 0 if there is no mean.
};

/// One model and the loop that trains it. The loop's thread calls the functions of this class. The
/// worker's side of this object, learner(), goes to a host, whose worker owns that side.
///
/// The model belongs to the loop from the return of begin(), step_over() or reduce() until the next
/// call of step_over() or reduce(). During these calls the model belongs to the worker, which adds
/// forces to it, mixes it or copies it. So only one of the two threads runs at any time, and
/// neither sees a model while the other changes it. There is one exception: while the loop computes
/// a gradient, the worker may copy and sum parts that the loop has handed over. If no gradient is
/// reduced, the worker lets the loop make all steps of a job in one turn. Calls of step_over()
/// within that turn then only count steps.
///
/// A loop for gossip, mixing or local steps:
///
///     for (bool more = loop.begin(); more; more = loop.step_over(score)) { ... one step ... }
///
/// If gradients are summed, or if a mixing rule changes them, each gradient must pass through
/// reduce() before its step. Otherwise reduce() returns the gradient unchanged, so this loop works
/// in every mode:
///
///     for (bool more = loop.begin(); more; more = loop.step_over(score)) {
///       do {
///         score = gradient_at(loop.parameters(), gradient);
///       } while (loop.reduce(gradient, score).again);
///       ... one step with `gradient` ...
///     }
class UserLoop {
 public:
  /// `parameters` is the model before the first step. `samples` is the number of samples that the
  /// loop learns from; some averages use this number as the loop's weight. Throws
  /// std::invalid_argument if the layout does not have as many elements as `parameters`.
  UserLoop(Layout layout, std::vector<float> parameters, std::size_t samples = 1);
  /// For a model that stays in the user's memory. The loop must then not call parameters().
  UserLoop(Layout layout, UserModel model, std::size_t samples = 1);
  UserLoop(const UserLoop&) = delete;
  UserLoop& operator=(const UserLoop&) = delete;
  /// Calls leave().
  ~UserLoop();

  /// Returns the worker's side, to be given to a host. May be called once.
  std::unique_ptr<Learner> learner();

  /// Waits until the loop may make the first step. Returns false if training has already ended.
  bool begin();

  /// The live model. Its address never changes.
  std::span<float> parameters();

  /// Reports that a step is over, with its training score. Waits until the loop may make the next
  /// step. Returns false if training is over. Throws std::logic_error if the step's gradient should
  /// have passed through reduce() but did not.
  bool step_over(const Score& score);

  /// Takes the gradient of the mean loss over `score.samples` samples at the present parameters. If
  /// peers sum gradients, waits for the sum and sets `gradient` to the mean. Throws
  /// std::logic_error if called twice in a step, unless the first gradient had to be computed
  /// again.
  Reduced reduce(std::span<float> gradient, const Score& score);
  /// Like reduce() above, for a gradient that is not contiguous.
  Reduced reduce(UserGradient gradient, const Score& score);

  // ---- The same calls in two parts, for a thread that must not block for long ----

  enum class Waited { may_go_on, is_over, is_late };

  /// These functions pass the turn to the worker, as step_over() and reduce() do, but do not wait.
  void give_step(const Score& score);
  void give_gradient(UserGradient gradient, const Score& score);
  /// Waits at most `patience` for the loop's turn. If this returns Waited::is_late, call it again.
  /// Before the first step, call this instead of begin().
  Waited wait(Duration patience);
  /// Returns the result of reduce(). Call it after give_gradient(), once wait() has succeeded.
  Reduced take_reduced();

  // ---- A gradient in parts ----

  /// Hands over parts of the gradient while the loop still computes the others. Does not wait. If
  /// peers sum gradients, the sum begins immediately. The worker reads each part between this call
  /// and the end of reduce(), so the part must not change meanwhile. All parts together form the
  /// gradient that the step's reduce() takes. Throws std::logic_error if has_reduced().
  void give_parts(std::vector<GradientPart> parts);
  /// True if the gradient of the step under way has passed through reduce().
  bool has_reduced() const;

  /// Sets the loop's position in its data after the step under way. Checkpoints save the position.
  void set_position(std::uint64_t position);
  /// Returns the position that was set last or, after a resume, the position in the checkpoint.
  std::uint64_t position() const;
  /// With leased data: returns the index of the next step's first sample in the order that all
  /// peers share. A step takes `batch` samples. Returns nullopt if data are not leased.
  std::optional<std::uint64_t> leased_position(std::uint64_t batch) const;

  /// Sets the learning rate of the next step, which some mixing rules need.
  void set_learning_rate(double learning_rate);

  /// True if the next step's gradient must pass through reduce().
  bool needs_gradient() const;

  /// The loop should multiply each change of the parameters by update_factor(). progress() is the
  /// swarm's progress.
  double update_factor() const;
  double progress() const;

  /// True once training should end, even during a step.
  bool should_stop() const;

  /// Ends the loop's training: the host saves a checkpoint, tells the other peers and ends. After
  /// this call the loop may call only parameters(). The model belongs to the loop again once the
  /// host has ended.
  void leave();

 private:
  struct Meeting;
  class Face;

  std::shared_ptr<Meeting> meeting_;
};

}  // namespace gv
