// Plans from answers, and checks that assignments make a whole pipeline.
#include "peer/modes/stage_planner.hpp"

#include <algorithm>
#include <set>

namespace gv {
namespace {

/// The share of the fastest peer.
constexpr std::uint32_t share_max = 1000;

}  // namespace

std::optional<Generation> StagePlanner::plan(const Answers& answers, const Generation*) const {
  std::vector<StageOffer> offers;
  double fastest = 0;
  for (const auto& [peer, answer] : answers) {
    offers.push_back({peer, answer.speed, answer.holdings, answer.leaves});
    fastest = std::max(fastest, static_cast<double>(answer.speed));
  }
  std::optional<StagePlan> plan = plan_stages(offers, stage_seconds_, options_);
  if (!plan) return std::nullopt;
  Generation start{.version = plan->version, .ends = is_end_agreed(answers, plan->version)};
  for (const StageOffer& offer : offers) {
    if (offer.leaves) continue;
    start.order.push_back(offer.peer);
    start.sources.push_back(offer.peer);
    const double share = offer.speed > 0 ? offer.speed / fastest : 1;
    start.shares.push_back(static_cast<std::uint32_t>(std::max(1.0, share_max * share)));
  }
  start.assignments = std::move(plan->assignments);
  return start;
}

std::string StagePlanner::problem(const Generation& generation) const {
  for (const std::uint32_t share : generation.shares) {
    if (share == 0 || share > share_max) return "a speed it installs is not one of a peer";
  }
  std::set<std::uint32_t> carried;
  std::set<std::pair<std::uint32_t, PeerId>> assignments;
  for (const StageAssignment& assignment : generation.assignments) {
    if (assignment.stage >= stage_seconds_.size()) return "it assigns a stage that does not exist";
    if (!generation.contains(assignment.carrier)) {
      return "it assigns a stage to a peer that takes no part";
    }
    if (!assignments.emplace(assignment.stage, assignment.carrier).second) {
      return "it assigns a stage twice to the same peer";
    }
    carried.insert(assignment.stage);
  }
  if (carried.size() != stage_seconds_.size()) return "it assigns a stage to no peer";
  return "";
}

std::string StagePlanner::problem(const Answer& answer) const {
  for (const StageHolding& holding : answer.holdings) {
    if (holding.stage >= stage_seconds_.size()) return "it promises a stage that does not exist";
  }
  return "";
}

/// We must carry a stage, and must have promised each state from which we are to go on.
bool StagePlanner::can_begin(const Generation& start, PeerId self, const Answer& own) const {
  bool carries = false;
  for (const StageAssignment& assignment : start.assignments) {
    if (assignment.carrier != self) continue;
    carries = true;
    const bool is_claimed = std::ranges::any_of(own.holdings, [&](const StageHolding& holding) {
      return holding.stage == assignment.stage && holding.version == start.version;
    });
    if (assignment.source == self && start.version.step > 0 && !is_claimed) return false;
  }
  return carries;
}

}  // namespace gv
