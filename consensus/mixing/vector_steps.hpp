// Elementary vector operations for the formulas of the mixing rules.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace gv {

/// x += scale y.
template <class Real>
void add(std::span<Real> x, std::span<const Real> y, double scale = 1) {
  const auto factor = static_cast<Real>(scale);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += factor * y[i];
}

/// x -= y.
template <class Real>
void take_away(std::span<Real> x, std::span<const Real> y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] -= y[i];
}

/// Clamps every value to at most `bound` in magnitude.
template <class Real>
void hold_within(std::span<Real> x, Real bound) {
  for (Real& value : x) value = std::clamp(value, -bound, bound);
}

/// x += moves, with every value of x clamped to at most `bound` in magnitude. Afterwards, `moves`
/// holds the amounts that were added. A move whose result would be NaN is not made.
template <class Real>
void add_within(std::span<Real> x, std::span<Real> moves, Real bound) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Real from = x[i];
    x[i] += moves[i];
    if (std::abs(x[i]) <= bound) continue;
    x[i] = std::isnan(x[i]) ? from : std::clamp(x[i], -bound, bound);
    moves[i] = x[i] - from;
  }
}

/// The largest slope that can arise if a step with this learning rate leads from one model within
/// the bound to another: 2 bound / learning_rate.
template <class Real>
Real largest_slope(Real bound, double learning_rate) {
  const double slope = 2 * static_cast<double>(bound) / learning_rate;
  return static_cast<Real>(std::min(slope, static_cast<double>(std::numeric_limits<Real>::max())));
}

/// Fills a kept vector with zeros if it is still empty, and returns it.
template <class Real>
std::vector<Real>& zeros_if_new(std::vector<Real>& kept, std::size_t elements) {
  if (kept.empty()) kept.assign(elements, 0);
  return kept;
}

}  // namespace gv
