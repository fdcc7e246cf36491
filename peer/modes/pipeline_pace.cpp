// How fast a peer of a pipeline is, and how long its steps take and should take.
#include <cstddef>

#include "peer/modes/pipeline.hpp"

namespace gv {

/// A pass of this generation is done. In a group we work only on our share of a pass.
void PipelineMode::measure(const task::StagePass& pass, double busy_s) {
  const double work_s =
      part_of_stage(pass.what.action) * options_.stage_seconds[pass.what.stage] * run_.own_share();
  pace_.add(pass.what.stage, work_s / static_cast<double>(run_.parts_of(pass.what)), busy_s);
  if (pace_.speed() > 0) generations_.agreement().set_speed(pace_.speed());
}

/// A step of this generation is done. The first one is not counted, since it waits for peers that
/// still load their stages.
void PipelineMode::measure_step(Time now) {
  if (begun_in_generation_ < 2) return;
  const double took = seconds(now - run_began_at_);
  measured_s_ += (measured_s_ == 0 ? 1 : recent_weight) * (took - measured_s_);
}

double PipelineMode::predicted_s() const {
  const Generation* generation = generations_.current();
  if (generation == nullptr || !survey_) return 0;
  return planner_.predicted_s(*generation, self_, planned_speed_, survey_->reports());
}

}  // namespace gv
