// Writes and checks the notes that tell how a run ended.
#include "peer/modes/mean_end.hpp"

#include <algorithm>

namespace gv {
namespace {

/// Upper bound of the number of models in a mean. It is needed because other peers may claim any
/// number; real means have far fewer.
constexpr std::uint64_t models_max = 0xffff;

}  // namespace

std::shared_ptr<const SwarmNote> MeanEnd::note_of(const ModelVersion& version) const {
  if (version.step < version_step || !note.end) return nullptr;
  auto own = std::make_shared<SwarmNote>(note);
  // Before the mean, the samples in a version equal its steps. The mean adds one sample for each
  // model.
  const std::uint64_t models = version.samples - std::min(version.samples, version.step - 1);
  own->end->models = std::min(models, models_max);
  own->end->lineage = version.lineage;
  return own;
}

ModelVersion version_of(const RunEnd& end, std::uint64_t version_step) {
  return {.step = version_step,
          .samples = version_step - 1 + std::min(end.models, models_max),
          .lineage = end.lineage};
}

bool is_over_for(const SwarmWorkOptions& run, const RunEnd& end) {
  const bool has_budget = run.budget <= end.budget;
  const bool has_time = end.wall == Duration{} || (run.wall > Duration{} && run.wall <= end.wall);
  const bool has_target =
      end.target <= 0 || (run.target.value > 0 && run.target.value <= end.target);
  return (has_budget && has_time && has_target) || (end.is_used_up && has_budget) ||
         (end.is_time_over && has_time) || (end.is_target_reached && has_target);
}

}  // namespace gv
