// How fast a peer of a pipeline is, and how long a step should take.
#include <algorithm>
#include <cstddef>

#include "peer/modes/pipeline.hpp"

namespace gv {

/// Our speed: the time that passes should take by the plan, divided by the time that they take. The
/// speed is smoothed over a hundred passes and at least a second, because on a shared machine a
/// pass of microseconds may wait for another program's time slice. It is the mean over all stages
/// that we have worked on long enough. The speed in a single stage would include the plan's error
/// about that stage, and peers would exchange stages back and forth because of it. In a group we
/// work only on our share of a pass.
void PipelineMode::measure(const task::StagePass& pass, double busy_s) {
  constexpr double passes = 100;
  constexpr double window_s = 1;
  const double keep = 1 - std::min(1 / passes, busy_s / window_s);
  StagePace& pace = paces_[pass.what.stage];
  const double work_s =
      part_of_stage(pass.what.action) * options_.stage_seconds[pass.what.stage] * run_.own_share();
  pace.work_s = keep * pace.work_s + work_s / static_cast<double>(run_.parts_of(pass.what));
  pace.busy_s = keep * pace.busy_s + busy_s;
  double sum = 0;
  std::size_t stages = 0;
  for (const auto& [stage, each] : paces_) {
    if (each.busy_s < window_s / 2) continue;
    sum += each.work_s / each.busy_s;
    ++stages;
  }
  if (stages == 0) return;
  speed_ = sum / static_cast<double>(stages);
  generations_.agreement().set_speed(speed_);
}

double PipelineMode::predicted_s() const {
  const Generation* generation = generations_.current();
  if (generation == nullptr || !survey_) return 0;
  return planner_.predicted_s(*generation, self_, planned_speed_, survey_->reports());
}

}  // namespace gv
