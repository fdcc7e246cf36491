// Finds the newest version for which some peer holds each stage.
#include "consensus/pipeline/stage_plan.hpp"

#include <algorithm>
#include <map>

#include "consensus/pipeline/chain_map.hpp"

namespace gv {
namespace {

bool holds(const StageOffer& offer, std::uint32_t stage, const ModelVersion& version) {
  return std::ranges::any_of(offer.holdings, [&](const StageHolding& holding) {
    return holding.stage == stage && holding.version == version;
  });
}

bool is_complete(std::span<const StageOffer> offers, std::size_t stages,
                 const ModelVersion& version) {
  if (version.step == 0) {
    return std::ranges::all_of(offers, [&](const StageOffer& offer) {
      return std::ranges::find(offer.holdings, version, &StageHolding::version) !=
             offer.holdings.end();
    });
  }
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    const bool is_held = std::ranges::any_of(
        offers, [&](const StageOffer& offer) { return holds(offer, stage, version); });
    if (!is_held) return false;
  }
  return true;
}

std::optional<ModelVersion> newest_complete(std::span<const StageOffer> offers,
                                            std::size_t stages) {
  std::optional<ModelVersion> newest;
  for (const StageOffer& offer : offers) {
    for (const StageHolding& holding : offer.holdings) {
      const bool is_better = !newest || is_before(*newest, holding.version);
      if (is_better && is_complete(offers, stages, holding.version)) newest = holding.version;
    }
  }
  return newest;
}

}  // namespace

std::optional<StagePlan> plan_stages(std::span<const StageOffer> offers,
                                     std::span<const double> stage_seconds,
                                     const StagePlanOptions& options) {
  const std::optional<ModelVersion> version = newest_complete(offers, stage_seconds.size());
  if (!version) return std::nullopt;
  // A stage and its mirror image are assigned together.
  const auto all = static_cast<std::uint32_t>(stage_seconds.size());
  const auto mapped = [&](std::uint32_t stage) {
    return options.mirrored ? std::min(stage, all - 1 - stage) : stage;
  };
  std::vector<double> work(options.mirrored ? all / 2 : all, 0);
  for (std::uint32_t stage = 0; stage < all; ++stage) work[mapped(stage)] += stage_seconds[stage];
  std::vector<StageCarrier> carriers;
  for (const StageOffer& offer : offers) {
    if (offer.leaves) continue;
    StageCarrier carrier{.peer = offer.peer, .speed = offer.speed, .stages = {}, .copies = {}};
    for (const StageHolding& holding : offer.holdings) {
      if (holding.stage >= stage_seconds.size()) continue;
      if (holding.carried) {
        carrier.stages.push_back(mapped(holding.stage));
      } else if (version->step > 0 && holding.version == *version) {
        carrier.copies.push_back(mapped(holding.stage));
      }
    }
    std::ranges::sort(carrier.stages);
    carrier.stages.erase(std::unique(carrier.stages.begin(), carrier.stages.end()),
                         carrier.stages.end());
    carriers.push_back(std::move(carrier));
  }
  StagePlan plan{.version = *version, .assignments = {}};
  std::map<PeerId, std::size_t> sent;
  const auto map = map_stages(carriers, work);
  const auto find_offer = [&](PeerId peer) -> const StageOffer& {
    return *std::ranges::find(offers, peer, &StageOffer::peer);
  };
  for (std::size_t i = 0; i < carriers.size(); ++i) {
    const StageOffer& own = find_offer(carriers[i].peer);
    std::vector<std::uint32_t> stages = map[i];
    if (options.mirrored) {
      for (const std::uint32_t stage : map[i]) stages.push_back(all - 1 - stage);
      std::ranges::sort(stages);
    }
    for (const std::uint32_t stage : stages) {
      StageAssignment assignment{.stage = stage, .carrier = own.peer, .source = own.peer};
      if (version->step > 0 && !holds(own, stage, *version)) {
        // Among the peers that have the stage, take the one that has the fewest other stages to
        // send.
        std::optional<PeerId> best;
        for (const StageOffer& offer : offers) {
          if (!holds(offer, stage, *version)) continue;
          if (!best || sent[offer.peer] < sent[*best]) best = offer.peer;
        }
        assignment.source = *best;
        ++sent[*best];
      }
      plan.assignments.push_back(assignment);
    }
  }
  return plan;
}

}  // namespace gv
