// The largest parameters that a model may have after others had a say in it.
#pragma once

#include <span>

namespace gv {

/// Holds parameters within a thousand times the largest of the seed's model, or 1000 if that is
/// more. Sums and means may contain what hostile peers have made up. They must not make a model so
/// large that no gradient is finite any more.
class ParameterBound {
 public:
  /// `largest`: the largest magnitude of the parameters by the seed.
  explicit ParameterBound(float largest);

  /// Call after each update that others had a part in. `before`: the largest magnitude before it,
  /// because a model that began otherwise than by the seed may stay as large as it is. Returns true
  /// if a parameter was too large and has been brought back.
  bool hold(std::span<float> parameters, float before) const;

 private:
  float bound_;
};

}  // namespace gv
