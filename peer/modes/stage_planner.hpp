// Plans generations of a pipeline: which peer carries which stage, and from which state.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "consensus/allreduce/reduce_choice.hpp"
#include "consensus/generation/planner.hpp"
#include "consensus/pipeline/stage_plan.hpp"

namespace gv {

/// Plans for peers that each have some stages of one model and may lack the others.
class StagePlanner final : public GenerationPlanner {
 public:
  /// `stage_seconds`: time of a micro-batch in each stage; only ratios matter. `samples`: samples
  /// of a run.
  StagePlanner(std::vector<double> stage_seconds, std::uint64_t samples, StagePlanOptions options);

  /// Pins these peers, and no others, in the plans that follow. Generations of other planners are
  /// not checked for pins, because each peer has its own list of names.
  void pin(std::map<PeerId, std::uint32_t> pins) { options_.pins = std::move(pins); }

  /// From now on we begin no other peer's generation at a version with more steps or samples than
  /// this one, unless it names more than a third of all peers as having the version or a part of
  /// it. Our own plans have such a version only if no other is complete. Nullopt: we believe any
  /// version.
  void believe(std::optional<ModelVersion> most) { believed_ = most; }

  /// Shares are speeds here, in thousandths of the fastest peer's.
  std::optional<Generation> plan(const Answers& answers, const Generation* last) const override;
  ModelVersion newest_version(const Answers& answers) const override;
  std::uint64_t samples_max() const override { return samples_; }
  std::string problem(const Generation& generation) const override;
  std::string problem(const Answer& answer) const override;
  using GenerationPlanner::problem;
  bool can_begin(const Generation& start, PeerId self, const Answer& own) const override;

  /// The predicted seconds of a step of this generation with `self` in it, if plans are made by
  /// predictions and the speed of `self` is known; otherwise 0. The others' speeds follow from it
  /// and from the generation's shares. `links` are those of `self`; a link between two others is
  /// taken to be like the slower one of those to both.
  double predicted_s(const Generation& generation, PeerId self, double speed,
                     const std::vector<LinkReport>& links) const;

 private:
  bool is_near(const ModelVersion& version) const;
  std::optional<StagePlan> plan_with(const std::vector<StageOffer>& offers,
                                     const LinkTable& links) const;
  std::string problem_of_slices(const Generation& generation) const;

  std::vector<double> stage_seconds_;
  std::uint64_t samples_;
  StagePlanOptions options_;
  std::optional<ModelVersion> believed_;
};

}  // namespace gv
