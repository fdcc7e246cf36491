// Applies outer steps, each in one pass over memory.
#include "consensus/compression/outer_step.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/magnitude.hpp"
#include "base/wide.hpp"

namespace gv {
namespace {

GV_WIDE void average(float* __restrict x, const float* __restrict d, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] -= d[i];
}

GV_WIDE void step_by_nesterov(float* __restrict x, const float* __restrict d, float* __restrict v,
                              std::size_t n, float rate, float mu) {
  for (std::size_t i = 0; i < n; ++i) {
    v[i] = mu * v[i] + d[i];
    x[i] -= rate * (d[i] + mu * v[i]);
  }
}

}  // namespace

std::uint64_t LocalSteps::steps_at(std::uint64_t step, std::uint64_t budget) const {
  if (!is_local(step)) return 1;
  return std::clamp<std::uint64_t>(budget - std::min(step, budget), 1, period);
}

OuterStep::OuterStep(const LocalSteps& options, std::size_t elements)
    : options_(options), momentum_(options.has_momentum() ? elements : 0) {}

void OuterStep::step(std::span<float> x, std::span<const float> mean_change) {
  check(x.size() == mean_change.size(), "a change of every parameter");
  if (momentum_.empty()) {
    average(x.data(), mean_change.data(), x.size());
  } else {
    step_by_nesterov(x.data(), mean_change.data(), momentum_.data(), x.size(),
                     static_cast<float>(options_.outer_learning_rate),
                     static_cast<float>(options_.outer_momentum));
  }
}

bool OuterStep::is_possible(std::span<const float> momentum) const {
  // v = mu v + d, so |v| <= |d| / (1 - mu) with |d| <= 4 largest_gradient. 4.01 allows for
  // rounding.
  const double most = 4.01 * largest_gradient / (1 - options_.outer_momentum);
  return largest_magnitude(momentum) <= most;
}

void OuterStep::adopt(std::span<const float> momentum) {
  check(momentum.size() == momentum_.size(), "an outer momentum has one size");
  std::ranges::copy(momentum, momentum_.begin());
}

}  // namespace gv
