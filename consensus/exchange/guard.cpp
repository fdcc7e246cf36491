// Norms and clip factors.
#include "consensus/exchange/guard.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace gv {

double sum_of_squares(std::span<const float> values) {
  constexpr std::size_t lanes = 16;
  std::array<double, lanes> sums{};
  const std::size_t whole = values.size() / lanes * lanes;
  for (std::size_t i = 0; i < whole; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  for (std::size_t i = whole; i < values.size(); ++i) {
    const double value = values[i];
    sums[i - whole] += value * value;
  }
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

double clip_factor(double radius, double distance) {
  if (radius <= 0 || distance <= radius) return 1;
  return radius / distance;
}

float smaller_radius(float a, float b) {
  if (a <= 0) return std::max(b, 0.0f);
  if (b <= 0) return a;
  return std::min(a, b);
}

}  // namespace gv
