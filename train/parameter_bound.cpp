// Brings parameters back to their bound.
#include "train/parameter_bound.hpp"

#include <algorithm>

namespace gv {
namespace {

/// Parameters may grow to this multiple of the initial model's largest magnitude, or of 1 if that
/// is larger.
constexpr float growth_max = 1000;

}  // namespace

ParameterBound::ParameterBound(float largest) : bound_(growth_max * std::max(1.0F, largest)) {}

float ParameterBound::hold(std::span<float> parameters, float before, float after) const {
  const float bound = bound_after(before);
  if (after <= bound) return after;
  for (float& value : parameters) value = std::clamp(value, -bound, bound);
  return bound;
}

float ParameterBound::bound_after(float before) const { return std::max(bound_, before); }

}  // namespace gv
