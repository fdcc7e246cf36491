// Plans generations of a pipeline: which peer carries which stage, and from which state.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "consensus/generation/planner.hpp"
#include "consensus/pipeline/stage_plan.hpp"

namespace gv {

/// Every peer has some stages of one model, and may lack the others.
class StagePlanner final : public GenerationPlanner {
 public:
  /// `stage_seconds`: time of a micro-batch in each stage; only ratios matter.
  StagePlanner(std::vector<double> stage_seconds, const StagePlanOptions& options)
      : stage_seconds_(std::move(stage_seconds)), options_(options) {}

  /// Shares are speeds here, in thousandths of the fastest.
  std::optional<Generation> plan(const Answers& answers, const Generation* last) const override;
  bool can_begin(const Generation& start, PeerId self, const Answer& own) const override;

 private:
  std::vector<double> stage_seconds_;
  StagePlanOptions options_;
};

}  // namespace gv
