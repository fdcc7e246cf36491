// Closed forms of the bounds.
#include "consensus/mixing/stability.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gv {

double pull_of(double rate, std::uint64_t steps) {
  return 1 - std::pow(1 - rate, static_cast<double>(steps));
}

double rate_of(double pull, std::uint64_t steps) {
  if (steps == 1) return pull;
  return 1 - std::pow(1 - std::min(pull, 1.0), 1 / static_cast<double>(steps));
}

double largest_delayed_pull(std::uint64_t delay) {
  return 2 * std::sin(std::numbers::pi / (2 * (2 * static_cast<double>(delay) + 1)));
}

double largest_elastic_alpha(double pull) { return std::max(0.0, (4 - 2 * pull) / (4 - pull)); }

double largest_sliced_pull(std::size_t slices) { return 2 / static_cast<double>(slices); }

}  // namespace gv
