// The parts of stages, the names of stage consensus, and the rules by which replicas of a stage may
// mix.
#include "peer/modes/pipeline_options.hpp"

#include <algorithm>

namespace gv {

std::string_view to_string(StageConsensus consensus) {
  switch (consensus) {
    case StageConsensus::allreduce:
      return "allreduce";
    case StageConsensus::gossip:
      return "gossip";
    case StageConsensus::mixing:
      return "mixing";
  }
  return "";
}

MixRule in_runs(const MixRule& rule) {
  return {.topology = rule.topology,
          .partners = rule.partners,
          .gamma = rule.gamma,
          .alpha = rule.alpha,
          .codec = rule.codec,
          .guard = rule.guard,
          .fragments = rule.fragments};
}

StageParts PipelineOptions::parts() const {
  std::vector<std::size_t> slices;
  for (const StageSize& stage : stages) slices.push_back(stage.slices.size());
  return StageParts(slices);
}

std::vector<PartSize> PipelineOptions::part_sizes() const {
  std::vector<PartSize> sizes;
  for (const StageSize& stage : stages) sizes.push_back({stage.parameters, stage.state});
  for (const StageSize& stage : stages) {
    sizes.insert(sizes.end(), stage.slices.begin(), stage.slices.end());
  }
  return sizes;
}

StagePlanOptions PipelineOptions::plan() const {
  StagePlanOptions plan{.mirrored = kind == PipelineKind::chimera,
                        .parts = parts(),
                        .group = {.least = 1, .most = group},
                        .slices_most = slices_most};
  for (const StageSize& stage : stages) {
    if (slices_most == 0 || stage.slices.empty()) continue;
    const std::size_t least = (stage.slices.size() + slices_most - 1) / slices_most;
    plan.group.least = std::min(group, std::max(plan.group.least, least));
  }
  return plan;
}

}  // namespace gv
