// Local steps between two collectives, and the outer step that follows each collective.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gv {

/// How the peers' mean change moves the anchor. The anchor is the model from which the local steps
/// began.
enum class OuterKind {
  average,   ///< Local SGD (Stich 2019): the mean of all models becomes the model.
  nesterov,  ///< DiLoCo (Douillard 2023): a Nesterov step with the mean change as the gradient.
};

/// The number of local steps between two collectives, and the kind of outer step that follows each
/// collective.
struct LocalSteps {
  /// Number of local steps for each collective; 1 means that gradients are summed.
  std::uint64_t period = 1;
  /// Local steps begin only after this many steps with summed gradients (Lin 2020).
  std::uint64_t local_after = 0;
  OuterKind outer = OuterKind::average;
  double outer_learning_rate = 0.7;
  double outer_momentum = 0.9;

  /// True if the collective that begins at `step` sums the changes of local steps.
  bool is_local(std::uint64_t step) const { return period > 1 && step >= local_after; }

  /// The number of steps that belong to the collective that begins at `step`: one or a period, but
  /// none beyond step `budget`, so the last period may be shorter. The step at which a collective
  /// begins identifies it, so no other counter is needed.
  std::uint64_t steps_at(std::uint64_t step, std::uint64_t budget) const;

  /// True if the outer step keeps a vector as long as the model.
  bool has_momentum() const { return period > 1 && outer == OuterKind::nesterov; }

  friend bool operator==(const LocalSteps&, const LocalSteps&) = default;
};

/// The outer step. With d = anchor - model, averaged over all peers that took part:
///
///   average   x = anchor - d
///   nesterov  v = mu v + d;  x = anchor - lr (d + mu v)
///
/// Here lr is `outer_learning_rate` and mu is `outer_momentum`. (The form is that of
/// train/optimizer.) Equal inputs give equal bits.
class OuterStep {
 public:
  OuterStep(const LocalSteps& options, std::size_t elements);

  /// On entry `x` is the anchor; on return it is the next anchor. Both spans have the size given at
  /// construction.
  void step(std::span<float> x, std::span<const float> mean_change);

  /// The momentum: empty, or as long as the model. It is part of the state that is equal at all
  /// peers.
  std::span<const float> momentum() const { return momentum_; }
  /// False if no series of mean changes can lead to this momentum. A mean change is at most four
  /// times the largest_gradient that each peer may contribute.
  bool is_possible(std::span<const float> momentum) const;
  /// Replaces the momentum with another peer's momentum(), which must have the same size.
  void adopt(std::span<const float> momentum);

 private:
  LocalSteps options_;
  std::vector<float> momentum_;
};

}  // namespace gv
