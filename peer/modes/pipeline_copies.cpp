// Copies of stages that neighbours in mode `pipeline` keep of each other.
#include <algorithm>

#include "peer/modes/pipeline.hpp"

namespace gv {

/// Plans the copies that neighbours keep of our stages, and we of theirs.
void PipelineMode::plan_copies(const ModelVersion& version) {
  if (options_.copy_every == 0 || version.step == 0) return;
  bool kept = false;
  for (std::uint32_t stage = 0; stage < options_.stages.size(); ++stage) {
    const auto keeper = keeper_of(stage);
    kept |= keeper.has_value();
    const PeerId first = run_.order()[run_.replicas()[stage].front()];
    if (keeper == self_) states_.expect_copy(stage, version, first);
  }
  if (!kept) return;
  copied_ = version;
  for (const std::uint32_t stage : run_.own_stages()) {
    due_.copies.push_back({stage, states_.blank(stage)});
  }
}

/// The peer that keeps copies of a stage: the first carrier of the next stage, or else the first
/// peer that does not carry this one.
std::optional<PeerId> PipelineMode::keeper_of(std::uint32_t stage) const {
  const auto& carriers = run_.replicas()[stage];
  const auto carries = [&](std::uint32_t rank) {
    return std::ranges::find(carriers, rank) != carriers.end();
  };
  for (const std::uint32_t rank : run_.replicas()[(stage + 1) % run_.replicas().size()]) {
    if (!carries(rank)) return run_.order()[rank];
  }
  for (std::uint32_t rank = 0; rank < run_.order().size(); ++rank) {
    if (!carries(rank)) return run_.order()[rank];
  }
  return std::nullopt;
}

/// Keeps our own state at a copying point, and sends it to the neighbour that keeps it.
void PipelineMode::keep_copy(const StageCopy& copy, const ModelVersion& version, Effects& out) {
  states_.keep(copy.stage, version, copy.values);
  tell_holdings();
  const auto keeper = keeper_of(copy.stage);
  const PeerId first = run_.order()[run_.replicas()[copy.stage].front()];
  if (!keeper || first != self_) return;
  states_.send_copy(copy.stage, version.step, copy.values, *keeper, out);
}

}  // namespace gv
