// Measures the speed of a pipeline peer, and limits the versions that it believes from others.
#include <algorithm>
#include <cstdint>

#include "peer/modes/pipeline.hpp"

namespace gv {
namespace {

/// We assume that, since our first run, the other peers have made at most this many times the
/// number of runs that we could have made.
constexpr double others_faster_max = 4;
/// An upper limit on the runs that the other peers make without us.
constexpr double runs_ahead_max = 1e9;

}  // namespace

/// Measures our speed from a finished pass of this generation. In a group we do only our share of a
/// pass.
void PipelineMode::measure(const task::StagePass& pass, double busy_s) {
  const double work_s =
      part_of_stage(pass.what.action) * options_.stage_seconds[pass.what.stage] * run_.own_share();
  pace_.add(pass.what.stage, work_s / static_cast<double>(run_.parts_of(pass.what)), busy_s);
  if (pace_.speed() > 0) generations_.agreement().set_speed(pace_.speed());
}

/// Measures the duration of a finished step of this generation. Leaves out the generation's first
/// step, because in it peers wait for others that still load their stages.
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

/// Returns the largest version that we believe if only few peers report it, estimated from the pace
/// of our own runs. Without this limit, a hostile peer could report a version that uses up the
/// budget, and so end the run. Nullopt as long as our pace is unknown.
std::optional<ModelVersion> PipelineMode::believed(Time now) const {
  const double run_s = generations_.operation_seconds();
  if (run_s <= 0 || !first_run_) return std::nullopt;
  const auto [began_at, first] = *first_run_;
  const double most_made =
      static_cast<double>(first) + others_faster_max * seconds(now - began_at) / run_s;
  const double ahead = most_made - static_cast<double>(generations_.agreement().version().step);
  const auto runs = 2 + static_cast<std::uint64_t>(std::clamp(ahead, 0.0, runs_ahead_max));
  ModelVersion most = generations_.agreement().version();
  most.step += runs;
  most.samples += runs * options_.micro_batches * options_.micro_batch;
  return most;
}

}  // namespace gv
