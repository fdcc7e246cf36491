// Brings parameters back to their bound.
#include "train/parameter_bound.hpp"

#include <algorithm>

#include "base/magnitude.hpp"

namespace gv {
namespace {

/// Parameters may grow by this factor from the seed's largest one, or from 1.
constexpr float growth_max = 1000;

}  // namespace

ParameterBound::ParameterBound(float largest) : bound_(growth_max * std::max(1.0F, largest)) {}

bool ParameterBound::hold(std::span<float> parameters, float& largest) const {
  const float bound = std::max(bound_, largest);
  largest = largest_magnitude(parameters);
  if (largest <= bound) return false;
  largest = bound;
  for (float& value : parameters) value = std::clamp(value, -bound, bound);
  return true;
}

}  // namespace gv
