// Turns a user's own training loop into a learner. The loop runs on its own thread and meets the
// worker after each step, or when a gradient is to be summed.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "train/learner/learner.hpp"

namespace gv {

/// The result of reduce().
struct Reduced {
  /// The model was replaced by a newer one meanwhile, so the gradient is useless. Compute another
  /// at the present parameters, and call reduce() again.
  bool again = false;
  bool is_over = false;     ///< Training is over: no sum will come.
  std::size_t samples = 0;  ///< Samples of all peers in the mean; 0: the gradient is our own.
};

/// One model and the loop that trains it. The loop's thread calls the functions of this class. Its
/// other side, learner(), goes to a host, whose worker owns it.
///
/// The model belongs to the loop from the return of begin(), step_over() or reduce() until the next
/// call of step_over() or reduce(). During these calls it belongs to the worker, which adds forces
/// to it, mixes it or copies it. So only one of the two threads runs at any time, and neither sees
/// a model while the other changes it.
///
/// The loop for a run with gossip or mixing, or with local steps:
///
///     for (bool more = loop.begin(); more; more = loop.step_over(score)) { ... one step ... }
///
/// If gradients are summed, or if a mixing rule changes them, each must pass through reduce()
/// before its step. In other modes reduce() returns it unchanged. So one loop fits all:
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
  /// loop learns from, which may be its weight in a mean.
  UserLoop(Layout layout, std::vector<float> parameters, std::size_t samples = 1);
  UserLoop(const UserLoop&) = delete;
  UserLoop& operator=(const UserLoop&) = delete;
  /// Calls leave().
  ~UserLoop();

  /// The side for a host. May be called once.
  std::unique_ptr<Learner> learner();

  /// Waits until the loop may make the first step. Returns false if training has ended before.
  bool begin();

  /// The live model. Its address never changes.
  std::span<float> parameters();

  /// Reports that a step is over, with its training score. Waits until the loop may make the next;
  /// returns false if training is over. Throws std::logic_error if the step's gradient had to pass
  /// through reduce() and did not.
  bool step_over(const Score& score);

  /// Takes the gradient of the mean loss over `score.samples` samples at the present parameters. If
  /// peers sum gradients, waits for the sum and sets `gradient` to the mean. Throws
  /// std::logic_error at the second gradient of a step, unless the first had to be computed again.
  Reduced reduce(std::span<float> gradient, const Score& score);

  /// Sets the learning rate of the next step, which some mixing rules need.
  void set_learning_rate(double learning_rate);

  /// The factor for each change of the parameters, and the progress of the swarm.
  double update_factor() const;
  double progress() const;

  /// True once training should end, even during a step.
  bool should_stop() const;

  /// Ends the loop's part: the host saves, tells the others and ends. Afterwards only parameters()
  /// may be called; the model belongs to the loop once the host has ended.
  void leave();

 private:
  struct Meeting;
  class Face;

  std::shared_ptr<Meeting> meeting_;
};

}  // namespace gv
