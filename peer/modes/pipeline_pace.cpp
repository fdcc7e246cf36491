// How fast a peer of a pipeline is, how long its steps take and should take, and how far others can
// be ahead of it.
#include <algorithm>
#include <cstdint>

#include "peer/modes/pipeline.hpp"

namespace gv {
namespace {

/// Without us the others make at most this many times as many runs as we could make since our
/// first.
constexpr double others_faster_max = 4;
/// More runs than any peer makes without us.
constexpr double runs_ahead_max = 1e9;

}  // namespace

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

/// The most steps and samples that a version can have, by the pace of our own runs, if only few
/// peers say that they have it. Otherwise a hostile peer could end the run by a version that uses
/// up its budget. Nullopt as long as we have no pace.
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
