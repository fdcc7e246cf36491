// Lets a user's own training loop be a learner: it drives itself on its thread, and meets the
// worker wherever a step is over or a gradient is to be summed.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "train/learner/learner.hpp"

namespace gv {

/// What has become of a gradient that a user's loop has given.
struct Reduced {
  /// The model was replaced by a newer one meanwhile, so the gradient is of no use: compute another
  /// at the present parameters, and give that.
  bool again = false;
  bool is_over = false;     ///< Training is over: there will be no sum.
  std::size_t samples = 0;  ///< Samples of all peers in the mean; 0: the gradient is our own.
};

/// One model and the loop that trains it. The loop's thread calls the functions of this class; the
/// other face, learner(), goes to a host, whose worker owns it.
///
/// The model belongs to the loop from the return of begin(), step_over() or reduce() to the next
/// call of one of the last two. During the calls it belongs to the worker, which adds forces to it,
/// mixes it or copies it. So only one of the two threads runs at any time, and neither sees a
/// model that the other one is changing.
///
/// The loop of a run by gossip or mixing, and with local steps:
///
///     for (bool more = loop.begin(); more; more = loop.step_over(score)) { ... one step ... }
///
/// If gradients are summed, or if a mixing rule changes them, each passes through reduce() before
/// the step is made. Other ways of working return it as it was. So one loop fits all:
///
///     for (bool more = loop.begin(); more; more = loop.step_over(score)) {
///       do {
///         score = gradient_at(loop.parameters(), gradient);
///       } while (loop.reduce(gradient, score).again);
///       ... one step with `gradient` ...
///     }
class UserLoop {
 public:
  /// `parameters` are the model before the first step. By `samples`, those that the loop learns
  /// from, its weight in a mean may go.
  UserLoop(Layout layout, std::vector<float> parameters, std::size_t samples = 1);
  UserLoop(const UserLoop&) = delete;
  UserLoop& operator=(const UserLoop&) = delete;
  /// Leaves.
  ~UserLoop();

  /// The face for a host. May be called once.
  std::unique_ptr<Learner> learner();

  /// Waits until the first step is to be made. False if training has ended before.
  bool begin();

  /// The live model. Its address stays.
  std::span<float> parameters();

  /// A step is over, with that training score. Waits until the next is to be made; false if
  /// training is over. Throws std::logic_error if the step's gradient should have passed through
  /// reduce() and has not.
  bool step_over(const Score& score);

  /// Takes the gradient of the mean loss over `score.samples` samples at the present parameters.
  /// Where peers sum gradients, waits for the sum, and `gradient` becomes the mean. Throws
  /// std::logic_error at the second gradient of a step, unless the first was to be made again.
  Reduced reduce(std::span<float> gradient, const Score& score);

  /// The learning rate of the next step, which some mixing rules need.
  void set_learning_rate(double learning_rate);

  /// What the loop is to multiply each change of the parameters by, and the progress of the swarm.
  double update_factor() const;
  double progress() const;

  /// True once training is to end, even while the loop is in a step.
  bool should_stop() const;

  /// Ends the loop's part: the host saves, tells the others and ends. No other function but
  /// parameters() may be called then; the model belongs to the loop once the host has ended.
  void leave();

 private:
  struct Meeting;
  class Face;

  std::shared_ptr<Meeting> meeting_;
};

}  // namespace gv
