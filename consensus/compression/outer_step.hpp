// Local steps between two collectives: how many, and the outer step that ends them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gv {

/// How the mean of all peers' changes moves the anchor, the model that they began from.
enum class OuterKind {
  average,   ///< Local SGD (Stich 2019): the mean of the models.
  nesterov,  ///< DiLoCo (Douillard 2023): a step of Nesterov's method with the mean as gradient.
};

/// How many steps lie between two collectives, and which outer step ends them.
struct LocalSteps {
  std::uint64_t period = 1;       ///< Local steps for each collective; 1: gradients are summed.
  std::uint64_t local_after = 0;  ///< Steps with summed gradients before that (Lin 2020).
  OuterKind outer = OuterKind::average;
  double outer_learning_rate = 0.7;
  double outer_momentum = 0.9;

  /// True if the collective named by this step sums the changes of local steps.
  bool is_local(std::uint64_t step) const { return period > 1 && step >= local_after; }

  /// Steps of the collective that begins at `step`: one or a period, but never beyond `budget`, so
  /// the last one may be shorter. A collective is named by the step it begins at, so no other count
  /// is needed.
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
/// (in the form of train/optimizer). Equal inputs give equal bits.
class OuterStep {
 public:
  OuterStep(const LocalSteps& options, std::size_t elements);

  /// `x` is the anchor and becomes the next anchor. Both spans have the size given at construction.
  void step(std::span<float> x, std::span<const float> mean_change);

  /// The momentum: empty, or as long as the model. It is part of the state that is equal at all
  /// peers.
  std::span<const float> momentum() const { return momentum_; }
  /// Takes over the momentum() of another peer, which has the same size.
  void adopt(std::span<const float> momentum);

 private:
  LocalSteps options_;
  std::vector<float> momentum_;
};

}  // namespace gv
