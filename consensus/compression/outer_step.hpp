// When peers in lockstep take several steps of their own before they meet, and what happens then.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gv {

/// What the mean of everybody's changes does to the model that they began from, the anchor.
enum class OuterKind {
  average,   ///< Local SGD (Stich 2019): the mean of the models.
  nesterov,  ///< DiLoCo (Douillard 2023): a step of Nesterov's method with the mean as gradient.
};

/// How many steps an operation is, and how it ends.
struct LocalSteps {
  std::uint64_t period = 1;       ///< Steps of an operation; 1: gradients are summed in each.
  std::uint64_t local_after = 0;  ///< So many steps are made one by one first (Lin 2020).
  OuterKind outer = OuterKind::average;
  double outer_learning_rate = 0.7;
  double outer_momentum = 0.9;

  /// Whether the operation that begins at this step is made of local steps.
  bool is_local(std::uint64_t step) const { return period > 1 && step >= local_after; }

  /// Steps of the operation that begins at `step` of a budget: one, or a period, but never beyond
  /// the budget; the last one may be shorter. An operation is named by the step it begins at, so
  /// this is all there is between steps and operations.
  std::uint64_t steps_at(std::uint64_t step, std::uint64_t budget) const;

  /// The outer step keeps a vector as long as the model.
  bool has_momentum() const { return period > 1 && outer == OuterKind::nesterov; }
};

/// The outer step. With d = anchor - model, meant over all who took part:
///
///   average   x = anchor - d
///   nesterov  v = mu v + d;  x = anchor - lr (d + mu v)
///
/// (the form of train/optimizer). Equal inputs give equal bits.
class OuterStep {
 public:
  OuterStep(const LocalSteps& options, std::size_t elements);

  /// `x` is the anchor and becomes the next one. Both spans have the size given at construction.
  void step(std::span<float> x, std::span<const float> mean_change);

  /// What it keeps: empty, or as long as the model. Part of the state that all have alike.
  std::span<const float> momentum() const { return momentum_; }
  /// Takes over another's momentum(), which has the same size.
  void adopt(std::span<const float> momentum);

 private:
  LocalSteps options_;
  std::vector<float> momentum_;
};

}  // namespace gv
