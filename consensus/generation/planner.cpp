// Counts the peers that report the end of a run, and checks decisions about the end.
#include "consensus/generation/planner.hpp"

#include <algorithm>
#include <cstddef>

namespace gv {

bool is_end_agreed(const Answers& answers, const ModelVersion& version) {
  std::size_t voters = 0;
  std::size_t enders = 0;
  for (const auto& [peer, answer] : answers) {
    const bool has_steps = answer.version.step > 0 ||
                           std::ranges::any_of(answer.holdings, [](const StageHolding& held) {
                             return held.version.step > 0;
                           });
    if (!has_steps && version.step > 0) continue;
    ++voters;
    enders += answer.ends;
  }
  return 3 * enders > voters;
}

bool GenerationPlanner::contradicts_end(const Generation& generation) const {
  if (generation.ends) return end_view_ == EndView::far;
  return end_view_ == EndView::over || end_view_ == EndView::reached;
}

/// Only a peer whose own answer reported the end can object if the run goes on: a ballot that was
/// answered before the end may be decided long after it.
std::string GenerationPlanner::problem_of_end(const Generation& generation, bool answered) const {
  if (!contradicts_end(generation)) return "";
  if (generation.ends) return "it ends the run too early";
  return end_view_ == EndView::over && answered ? "it goes on after the end of the run" : "";
}

}  // namespace gv
