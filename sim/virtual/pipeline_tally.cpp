// Adds up busy time, and records the ends of pipeline runs.
#include "sim/virtual/pipeline_tally.hpp"

#include <algorithm>
#include <vector>

#include "consensus/pipeline/replay.hpp"
#include "consensus/pipeline/router.hpp"

namespace gv {

void PipelineTally::on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) {
  if (first_of<task::EndRun>(done.job.tasks) != nullptr && done.step > newest_) {
    newest_ = done.step;
    last_ = world.now();
    if (first_ == Time{}) first_ = last_;
    busy_by_last_s_ = busy_s_;
  }
  const bool has_part = first_of<result::StagePart>(done.results) != nullptr;
  if (has_part && first_ != Time{}) busy_s_[peer] += seconds(done.busy);
}

double PipelineTally::seconds_each() const {
  return newest_ > 1 ? seconds(last_ - first_) / static_cast<double>(newest_ - 1) : 0;
}

double PipelineTally::bubble() const {
  double busy = 0;
  for (const auto& [peer, own] : busy_by_last_s_) busy += own;
  const double whole = seconds(last_ - first_) * static_cast<double>(busy_by_last_s_.size());
  return whole > 0 ? 1 - busy / whole : 0;
}

double free_bubble(const PipelineOptions& options, std::size_t micro_batches) {
  const std::size_t stages = options.stages.size();
  Routes routes = straight_routes(stages, micro_batches);
  if (options.kind == PipelineKind::chimera) {
    for (std::size_t b = 1; b < routes.size(); b += 2) std::ranges::reverse(routes[b]);
  }
  PipelineCosts costs;
  for (const double whole : options.stage_seconds) {
    costs.stages.push_back(
        {.forward = whole * part_of_stage(PipelineAction::forward),
         .backward_input = whole * part_of_stage(PipelineAction::backward_input),
         .backward_weight = whole * part_of_stage(PipelineAction::backward_weight)});
  }
  return replay(make_schedule(options.kind, routes, stages, options.accumulate, options.ahead),
                costs)
      .bubble();
}

}  // namespace gv
