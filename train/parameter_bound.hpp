// The bounds on parameters that other peers have influenced.
#pragma once

#include <span>
#include <vector>

#include "base/range.hpp"

namespace gv {

/// The largest magnitude of the values outside these ranges, which must be in ascending order. 0 if
/// there are no such values; infinite or NaN if any of them is.
float largest_outside(std::span<const Range> ranges, std::span<const float> values);

/// Keeps parameters within a thousand times the largest magnitude in the initial model (made from
/// the seed), or within 1000 if that is more. Hostile peers may put any values into sums and means.
/// Such values must not make a model so large that gradients are no longer finite.
/// Running statistics have a bound of their own: they are as large as the data make them, and no
/// learning rate limits them.
class ParameterBound {
 public:
  /// `largest`: the largest magnitude of the initial parameters. `statistics`: the ranges of the
  /// running statistics among the parameters, in ascending order.
  explicit ParameterBound(float largest, std::vector<Range> statistics = {});

  /// The largest magnitude of the parameters that are not running statistics.
  float largest_in(std::span<const float> parameters) const {
    return largest_outside(statistics_, parameters);
  }

  /// Call after each change to which other peers contributed. `before` and `after`: largest_in()
  /// before and after the change. A model that was already larger than the bound may stay as large
  /// as it was. Clamps parameters that are too large. Returns largest_in() now.
  float hold(std::span<float> parameters, float before, float after) const;

  /// Clamps running statistics that are too large. Returns true if there were any. Call it where
  /// hold() is called.
  bool hold_statistics(std::span<float> parameters) const;

  /// The bound for a model whose largest magnitude was `before`.
  float bound_after(float before) const;

  /// Like bound_after(), but also holds for the running statistics.
  float bound_of_all(float before) const;

 private:
  float bound_;
  std::vector<Range> statistics_;
};

}  // namespace gv
