// Elementary vector operations for the formulas of the mixing rules.
#pragma once

#include <cstddef>
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

/// Fills a kept vector with zeros if it is still empty, and returns it.
template <class Real>
std::vector<Real>& zeros_if_new(std::vector<Real>& kept, std::size_t elements) {
  if (kept.empty()) kept.assign(elements, 0);
  return kept;
}

}  // namespace gv
