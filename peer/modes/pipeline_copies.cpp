// Copies parts of a pipeline's stages to neighbours and to peers that take over a stage, and keeps
// copies of other peers' parts.
#include <algorithm>

#include "peer/modes/pipeline.hpp"

namespace gv {

/// Makes the next job copy those of our stages that other peers have requested.
void PipelineMode::plan_exports() {
  for (const std::uint32_t part : states_.take_to_copy()) {
    due_.exports.push_back({part, states_.blank(part)});
  }
}

/// Called when the generation continues from a version other than ours. Makes the next job copy our
/// parts before other states replace them. Until all peers have finished a run, some peer may still
/// lack a state of the new version. In that case, all peers return to the old version.
void PipelineMode::keep_until_run() {
  const ModelVersion& version = generations_.agreement().version();
  if (version.step == 0) return;  // States at step 0 can be made from the seed.
  for (const std::uint32_t part : carried_) {
    if (!states_.find(part, version)) due_.exports.push_back({part, states_.blank(part)});
  }
}

/// Gives up those of our parts that differ from most other carriers' parts. We no longer report
/// them, so the next ballot names carriers from which we download them.
void PipelineMode::give_up_odd(Time now, Effects& out) {
  const std::vector<std::uint32_t> odd = states_.take_odd();
  // If our part of a run is complete, others may have finished the run, so our state may no longer
  // be the one that was compared.
  if (odd.empty() || generations_.current() == nullptr || complete_) return;
  const ModelVersion& version = generations_.current()->version;
  const bool has_moved_there = generations_.agreement().version() == version;
  for (const std::uint32_t part : odd) {
    states_.drop(part, version);
    if (has_moved_there && carried_.erase(part) > 0) given_up_.insert(part);
  }
  tell_holdings();
  disturb(now, {}, out);
}

/// True if all states of the generation have arrived, no job is under way, and copies exist of the
/// states that will be replaced or handed over. Without such copies, the parts that we release
/// could be lost if the generation ended. While a job is under way, our stages may not be at the
/// generation's version.
bool PipelineMode::may_become_ready() const {
  return preparing_ && !states_.is_fetching() && course_.jobs_under_way() == 0 &&
         due_.exports.empty();
}

/// Keeps the copies of our parts at `version` that a job has made. Hands them over if the
/// generation begins from that version.
void PipelineMode::keep_exports(const task::ExportStages& exported, const ModelVersion& version,
                                Effects& out) {
  for (const StageCopy& copy : exported.copies) {
    if (version == served()->version) {
      // Keep our copy too, because it may be the only one until the receiver has the state.
      states_.keep(copy.part, version, copy.values);
      states_.hand_over(copy.part, copy.values, out);
    } else {
      states_.keep_until_run(copy.part, version, copy.values);
    }
  }
  tell_holdings();
}

/// Decides which neighbours keep copies of our parts, and whose parts we keep copies of. If every
/// peer carries every part, makes no copies. Sets `copied_` even so, because states from before
/// `version` are no longer needed.
void PipelineMode::plan_copies(const ModelVersion& version) {
  if (options_.copy_every == 0 || version.step == 0) return;
  bool kept = false;
  for (std::uint32_t part = 0; part < run_.holders().size(); ++part) {
    const auto keeper = keeper_of(part);
    kept |= keeper.has_value();
    const PeerId first = run_.order()[run_.holders()[part].front()];
    if (keeper == self_) states_.expect_copy(part, version, first);
  }
  copied_ = version;
  if (!kept) return;
  for (const std::uint32_t part : run_.own_parts()) {
    due_.copies.push_back({part, states_.blank(part)});
  }
}

/// Returns the peer that keeps copies of a part; nullopt if every peer carries the part. For a
/// stage, the keeper is the first carrier of the next stage that does not also carry the stage
/// itself. If there is none, it is the first peer that does not carry the stage. For a slice, it is
/// the next peer without the slice, so that every peer keeps about as many slices as it carries.
std::optional<PeerId> PipelineMode::keeper_of(std::uint32_t part) const {
  const auto& carriers = run_.holders()[part];
  const auto carries = [&](std::uint32_t rank) {
    return std::ranges::find(carriers, rank) != carriers.end();
  };
  const auto all = static_cast<std::uint32_t>(run_.order().size());
  std::uint32_t first = 0;
  if (parts_.is_slice(part)) {
    first = carriers.front();
  } else {
    for (const std::uint32_t rank : run_.replicas()[(part + 1) % run_.replicas().size()]) {
      if (!carries(rank)) return run_.order()[rank];
    }
  }
  for (std::uint32_t i = 0; i < all; ++i) {
    const std::uint32_t rank = (first + i) % all;
    if (!carries(rank)) return run_.order()[rank];
  }
  return std::nullopt;
}

/// True if `peer` is the one that sends copies of the part: its first carrier.
bool PipelineMode::copies_from(PeerId peer, std::uint32_t part) const {
  return part < run_.holders().size() && run_.order()[run_.holders()[part].front()] == peer;
}

/// Keeps a copy of our own part at a copying point. If we are the part's first carrier, also sends
/// the copy to the peer that keeps it.
void PipelineMode::keep_copy(const StageCopy& copy, const ModelVersion& version, Effects& out) {
  states_.keep(copy.part, version, copy.values);
  tell_holdings();
  const auto keeper = keeper_of(copy.part);
  if (!keeper || !copies_from(self_, copy.part)) return;
  states_.send_copy(copy.part, version.step, copy.values, *keeper, out);
}

}  // namespace gv
