// Computes the stability bounds by closed formulas.
#include "consensus/mixing/stability.hpp"

#include <algorithm>
#include <bit>
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

std::uint64_t delay_of_changes(TopologyKind kind, std::size_t peers) {
  std::uint64_t rounds = 0;
  for (std::size_t rank = 1; rank < std::max<std::size_t>(2, peers); ++rank) {
    const int level = kind == TopologyKind::tree ? std::bit_width(rank + 1) - 1 : 1;
    rounds += 4 * static_cast<std::uint64_t>(level) - 2;
  }
  return rounds - 1;
}

double largest_elastic_alpha(double pull) { return std::max(0.0, (4 - 2 * pull) / (4 - pull)); }

double largest_sliced_pull(std::size_t slices) { return 2 / static_cast<double>(slices); }

}  // namespace gv
