// The defaults for a learner whose optimiser keeps no state.
#include "train/learner/learner.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace gv {

Score Learner::local_steps(std::uint64_t steps, std::size_t, std::span<float> out) {
  const std::span<const float> start = parameters();
  check(out.size() == start.size(), "a change has the layout's size");
  const std::uint64_t before = step();
  std::ranges::copy(start, out.begin());
  const Score score = run_steps(steps, {});
  const std::span<float> x = live_parameters();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float anchor = out[i];
    out[i] = anchor - x[i];
    x[i] = anchor;
  }
  go_on_at(before);
  return score;
}

void Learner::end_local_steps(std::span<const float> parameters, std::uint64_t steps) {
  adopt(parameters, step() + steps);
}

void Learner::adopt(std::span<const float> parameters, std::uint64_t step) {
  const std::span<float> x = live_parameters();
  check(parameters.size() == x.size(), "a model has the layout's size");
  std::ranges::copy(parameters, x.begin());
  go_on_at(step);
}

void Learner::adopt_model(std::span<const float> parameters, std::uint64_t step) {
  adopt(parameters, step);
}

void Learner::adopt_state(std::span<const float> parameters, std::span<const float>,
                          std::uint64_t step, std::uint64_t) {
  adopt(parameters, step);
}

OptimizerState Learner::optimizer_state() const { return {.step = step(), .updates = updates()}; }

std::string Learner::restore(std::span<const float> parameters, const OptimizerState& state) {
  if (parameters.size() != layout().size()) return "the model has another size";
  if (!state.vectors.empty()) return "its optimiser keeps vectors, and this one's keeps none";
  adopt(parameters, state.step);
  return {};
}

}  // namespace gv
