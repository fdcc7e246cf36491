// Clamps parameters and running statistics to their bounds.
#include "train/parameter_bound.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/magnitude.hpp"

namespace gv {
namespace {

/// Parameters may grow to this multiple of the initial model's largest magnitude, or of 1 if that
/// is larger.
constexpr float growth_max = 1000;

/// The largest running statistic: the mean square of values of about a million. Changes of
/// statistics are sent as gradients, so the limit is that of gradients. The square of such a mean
/// is still finite.
constexpr float largest_statistic = largest_gradient;

/// Calls `visit` with each part of `values` that is outside the ranges.
template <class Value, class Visit>
void each_outside(std::span<const Range> ranges, std::span<Value> values, const Visit& visit) {
  std::size_t at = 0;
  for (const Range& range : ranges) {
    visit(values.subspan(at, range.begin - at));
    at = range.end;
  }
  visit(values.subspan(at));
}

void clamp_all(std::span<float> values, float bound) {
  for (float& value : values) value = std::clamp(value, -bound, bound);
}

}  // namespace

float largest_outside(std::span<const Range> ranges, std::span<const float> values) {
  std::uint32_t largest = 0;
  each_outside(ranges, values, [&](std::span<const float> part) {
    largest = std::max(largest, magnitude_bits(largest_magnitude(part)));
  });
  return std::bit_cast<float>(largest);
}

ParameterBound::ParameterBound(float largest, std::vector<Range> statistics)
    : bound_(growth_max * std::max(1.0F, largest)), statistics_(std::move(statistics)) {}

float ParameterBound::hold(std::span<float> parameters, float before, float after) const {
  const float bound = bound_after(before);
  if (after <= bound) return after;
  each_outside(statistics_, parameters, [bound](std::span<float> part) { clamp_all(part, bound); });
  return bound;
}

bool ParameterBound::hold_statistics(std::span<float> parameters) const {
  bool are_held = false;
  for (const Range& range : statistics_) {
    const std::span<float> values = parameters.subspan(range.begin, range.size());
    if (largest_magnitude(values) <= largest_statistic) continue;
    are_held = true;
    clamp_all(values, largest_statistic);
  }
  return are_held;
}

float ParameterBound::bound_after(float before) const { return std::max(bound_, before); }

float ParameterBound::bound_of_all(float before) const {
  return statistics_.empty() ? bound_after(before)
                             : std::max(bound_after(before), largest_statistic);
}

}  // namespace gv
