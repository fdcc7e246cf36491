// The optimisers: how a gradient changes parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/range.hpp"
#include "train/learner/layout.hpp"
#include "train/spec.hpp"

namespace gv {

/// Number of vectors that the optimiser keeps, each as long as the parameters: 0, 1 or 2.
std::size_t optimizer_vectors(const OptimizerSpec& spec);

/// True if this optimiser uses OptimizerSpec's momentum.
bool has_momentum(const OptimizerSpec& spec);

/// One optimiser over one flat vector x. lr is the learning rate, mu the momentum, d the decay of a
/// mean square, and g the gradient (plus weight_decay * x, except for adamw and lamb):
///
///   sgd       x -= lr g
///   momentum  v = mu v + g;  x -= lr v                (Polyak 1964, in gradient units)
///   nesterov  v = mu v + g;  x -= lr (g + mu v)       (Sutskever 2013, as gradient at x)
///   adagrad   s += g^2;      x -= lr g / (sqrt(s) + eps)                   (Duchi 2011)
///   rmsprop   s = d s + (1-d) g^2;  x -= lr g / (sqrt(s) + eps)            (Tieleman 2012)
///   adam      m, s averages of g, g^2;  x -= lr m' / (sqrt(s') + eps)      (Kingma 2015)
///   adamw     adam, and also x -= lr weight_decay x                        (Loshchilov 2019)
///
/// m' and s' are m and s corrected for their bias. Two optimisers scale the step of each tensor w,
/// so that training with large batches does not diverge where gradients are large compared with
/// weights:
///
///   lars      v = mu v + t g;  w -= lr v, t = trust |w| / (|g without decay| + weight_decay |w| +
///             eps)                                                         (You 2017)
///   lamb      r = m' / (sqrt(s') + eps) + weight_decay w;  w -= lr min(|w|, 10) r / |r| (You 2020)
///
/// Tensors of one dimension (biases and scales of norms) use t = 1 in lars, w -= lr r in lamb, and
/// no weight decay. The same holds for a tensor of zeros and, in lars, for a tensor whose gradient
/// is zero.
///
/// The velocity v is a sum of gradients. If it were the difference of two successive values of x,
/// it would also contain changes that gossip has made between the two steps.
class Optimizer {
 public:
  /// `statistics` are the ranges of running statistics in the flat vector, in ascending order. They
  /// are updated without learning rate, momentum or decay: x -= 0.1 g, as in PyTorch's batch norm.
  Optimizer(OptimizerSpec spec, const Layout& layout, std::vector<Range> statistics = {});
  /// An optimiser for a single matrix of `parameters` values.
  Optimizer(OptimizerSpec spec, std::size_t parameters);

  /// Makes one update. Both spans have the size given at construction. Returns the largest
  /// magnitude that parameters other than statistics have after the update: infinite or NaN if any
  /// of these parameters is.
  float step(std::span<float> parameters, std::span<const float> gradient, double learning_rate);

  /// The state vectors and their names, for checkpoints.
  std::vector<std::pair<std::string, std::vector<float>>> vectors() const;
  std::uint64_t updates() const { return updates_; }
  /// Adds updates that were made elsewhere to the count.
  void count(std::uint64_t updates) { updates_ += updates; }

  /// Restores vectors() and updates(). Returns an empty string on success. Otherwise returns why
  /// they do not fit, or that they are not possible (see is_possible()), and changes nothing.
  std::string restore(const std::vector<std::pair<std::string, std::vector<float>>>& vectors,
                      std::uint64_t updates);

  /// The state as one vector for sending. state_size() is its number of floats, copy_state() copies
  /// it in a fixed order to a span of that size, and adopt_state() is the inverse.
  std::size_t state_size() const { return first_.size() + second_.size(); }
  void copy_state(std::span<float> out) const;
  void adopt_state(std::span<const float> state, std::uint64_t updates);
  /// The vectors of the state, in the order of copy_state().
  std::vector<std::span<float>> state();
  std::vector<std::span<const float>> state() const;
  /// Sets the count of updates. Call this after replacing all of the state.
  void set_updates(std::uint64_t updates) { updates_ = updates; }
  /// True if an optimiser of this kind could have produced the state: no second moment is negative,
  /// no velocity is larger than the largest gradients would make it, and no first moment is larger
  /// than its second moment allows. The state may cover only some of the parameters. All values
  /// must be finite.
  bool is_possible(std::span<const float> state) const;

  /// Resets all state to zero.
  void reset();

  const OptimizerSpec& spec() const { return spec_; }
  /// Set the momentum and the weight decay of later steps. The accumulated state does not change.
  void set_momentum(double momentum) { spec_.momentum = momentum; }
  void set_weight_decay(double weight_decay) { spec_.weight_decay = weight_decay; }

 private:
  /// A tensor of a layout. `adapts` is false for scalars and vectors.
  struct Part {
    std::size_t begin = 0;
    std::size_t size = 0;
    bool adapts = true;
  };

  std::vector<std::string> names() const;
  /// is_possible() for the two vectors of a state, either of which may be empty.
  bool are_possible(std::span<const float> first, std::span<const float> second) const;
  /// Makes the optimiser's step on all elements, including running statistics.
  float step_parameters(std::span<float> parameters, std::span<const float> gradient,
                        double learning_rate);
  void step_block(std::span<float> parameters, std::span<const float> gradient, std::size_t begin,
                  double learning_rate);
  void step_by_tensor(std::span<float> parameters, std::span<const float> gradient,
                      double learning_rate);

  OptimizerSpec spec_;
  std::vector<Part> parts_;
  std::vector<Range> statistics_;
  std::vector<float> first_;   ///< Velocity, or the first moment.
  std::vector<float> second_;  ///< Sum or average of squares.
  std::uint64_t updates_ = 0;
};

}  // namespace gv
