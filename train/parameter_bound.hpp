// The bound on parameters that other peers have influenced.
#pragma once

#include <span>

namespace gv {

/// Keeps parameters within a thousand times the largest magnitude in the initial model (made from
/// the seed), or within 1000 if that is more. Hostile peers may put any values into sums and means.
/// Such values must not make a model so large that gradients are no longer finite.
class ParameterBound {
 public:
  /// `largest`: the largest magnitude of the initial parameters.
  explicit ParameterBound(float largest);

  /// Call after each change to which other peers contributed. `before` and `after`: the largest
  /// magnitude before and after the change. A model that was already larger than the bound may stay
  /// as large as it was. Clamps parameters that are too large. Returns the largest magnitude now.
  float hold(std::span<float> parameters, float before, float after) const;

  /// The bound for a model whose largest magnitude was `before`.
  float bound_after(float before) const;

 private:
  float bound_;
};

}  // namespace gv
