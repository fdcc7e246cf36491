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

/// Makes plans for peers that each have some stages of one model and may lack others.
class StagePlanner final : public GenerationPlanner {
 public:
  /// `stage_seconds` are the seconds that a micro-batch takes in each stage; only their ratios
  /// matter. `samples` is the number of samples in a run.
  StagePlanner(std::vector<double> stage_seconds, std::uint64_t samples, StagePlanOptions options);

  /// From now on, plans pin exactly these peers. Pins are not checked in generations that other
  /// peers plan, because each peer has its own list of names.
  void pin(std::map<PeerId, std::uint32_t> pins) { options_.pins = std::move(pins); }

  /// Sets the newest version that we believe even if only a few peers report it. Another peer's
  /// generation may begin at a version with more steps or samples. We begin such a generation only
  /// if it states that more than a third of all peers have that version or a part of it. Our own
  /// plans use such a version only if no other version is complete. With nullopt we believe any
  /// version.
  void believe(std::optional<ModelVersion> most) { believed_ = most; }

  /// Makes a plan whose shares are speeds, in thousandths of the fastest peer's speed.
  std::optional<Generation> plan(const Answers& answers, const Generation* last) const override;
  ModelVersion newest_version(const Answers& answers, const Answer& own) const override;
  std::uint64_t samples_max() const override { return samples_; }
  std::string problem(const Generation& generation) const override;
  std::string problem(const Answer& answer) const override;
  using GenerationPlanner::problem;
  std::string problem_of_sources(const Generation& start, PeerId self,
                                 const Answer& own) const override;
  bool can_begin(const Generation& start, PeerId self, const Answer& own) const override;

  /// Predicts the seconds that a step of this generation takes. Returns 0 if plans are not made by
  /// predictions, or if `speed` is not known. `speed` is the speed of the peer `self`, which is in
  /// the generation; the other peers' speeds follow from it and from the generation's shares.
  /// `links` are the links from `self`. A link between two other peers is assumed to be like the
  /// slower of the links from `self` to these two.
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
