// The bound on parameters that other peers have influenced.
#pragma once

#include <span>

namespace gv {

/// Holds parameters within a thousand times the largest of the seed's model, or 1000 if that is
/// more. Sums and means may contain values that hostile peers have invented. These must not make a
/// model so large that gradients are no longer finite.
class ParameterBound {
 public:
  /// `largest`: the largest magnitude of the parameters by the seed.
  explicit ParameterBound(float largest);

  /// Call after each change to which other peers contributed. `before` and `after`: the largest
  /// magnitude before and after the change. A model that did not begin with the seed's values may
  /// stay as large as it was. Returns the largest magnitude now: `after`, or less if a parameter
  /// was too large and has been clamped.
  float hold(std::span<float> parameters, float before, float after) const;

  /// The bound for a model whose largest magnitude was `before`.
  float bound_after(float before) const;

 private:
  float bound_;
};

}  // namespace gv
