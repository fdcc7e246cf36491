// Compares the layouts that best_plans() suggests, by the predicted time of a step.
#include "consensus/pipeline/stage_layout.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "base/rng.hpp"
#include "base/shares.hpp"
#include "consensus/pipeline/replay.hpp"
#include "consensus/split/plan_search.hpp"

namespace gv {
namespace {

/// Predicts the time of a step of one layout.
class StepClock {
 public:
  StepClock(const StageLayout& layout, const LayoutCosts& costs, const SplitSite& site)
      : layout_(layout), costs_(costs), site_(site), workers_(costs.stages.size()) {
    const auto& groups = layout.groups.members;
    for (std::uint32_t group = 0; group < groups.size(); ++group) {
      for (const std::uint32_t stage : layout.stages[groups[group].front()]) {
        workers_[stage].push_back(group);
      }
      pass_s_.emplace_back(costs.stages.size(), 0);
      for (const std::uint32_t stage : layout.stages[groups[group].front()]) {
        pass_s_.back()[stage] = pass_of(groups[group], costs.stages[stage]);
      }
    }
  }

  double seconds() const {
    std::vector<double> speeds;
    for (const auto& members : layout_.groups.members) {
      double sum = 0;
      for (const std::uint32_t rank : members) sum += site_.peers[rank].operations_per_s;
      speeds.push_back(sum);
    }
    const Routes routes =
        make_routes(costs_.kind, costs_.router, workers_, costs_.micro_batches, speeds, Rng(0));
    const PipelineSchedule schedule =
        make_schedule(costs_.kind, routes, workers_of_schedule(), 0, costs_.ahead);
    std::vector<std::vector<double>> seconds;
    for (std::size_t worker = 0; worker < schedule.workers.size(); ++worker) {
      std::vector<double>& own = seconds.emplace_back();
      for (const PipelineInstruction& what : schedule.workers[worker]) {
        own.push_back(part_of_stage(what.action) * pass_s_[worker][what.stage]);
      }
    }
    return replay(schedule, {.stages = {}, .boundaries = boundaries(), .speeds = {}}, seconds)
               .makespan +
           longest_sum() + completion_s();
  }

 private:
  std::size_t workers_of_schedule() const { return layout_.groups.members.size(); }

  SplitGroup group_of_ranks(const std::vector<std::uint32_t>& ranks) const {
    return group_of(site_, {ranks.begin(), ranks.end()});
  }

  /// Seconds that these members need to take a micro-batch forward and backward through a stage.
  double pass_of(const std::vector<std::uint32_t>& members, const SplitLayer& stage) const {
    const SplitCost cost =
        layer_cost(stage, {SplitKind::slices, 0, members.size()}, group_of_ranks(members),
                   {.samples = 1, .micro_batches = 1}, site_.rounds);
    return cost.compute_s + cost.activations_s;
  }

  /// The slowest link between two lists of ranks. A peer needs no link to itself.
  SplitLink worst_link(const std::vector<std::uint32_t>& from,
                       const std::vector<std::uint32_t>& to) const {
    SplitLink worst;
    for (const std::uint32_t a : from) {
      for (const std::uint32_t b : to) {
        if (a != b) worst.worsen(site_.links[a][b]);
      }
    }
    return worst;
  }

  std::vector<std::uint32_t> carriers(std::size_t stage) const {
    std::vector<std::uint32_t> ranks;
    for (const std::uint32_t worker : workers_[stage]) {
      const auto& members = layout_.groups.members[worker];
      ranks.insert(ranks.end(), members.begin(), members.end());
    }
    return ranks;
  }

  std::size_t largest_group(std::size_t stage) const {
    std::size_t most = 1;
    for (const std::uint32_t worker : workers_[stage]) {
      most = std::max(most, layout_.groups.members[worker].size());
    }
    return most;
  }

  /// The costs between consecutive stages. Every member of a group has the outputs, and sends them
  /// to its part of the receivers.
  std::vector<BoundaryCost> boundaries() const {
    std::vector<BoundaryCost> costs;
    for (std::size_t stage = 0; stage + 1 < workers_.size(); ++stage) {
      const SplitLink link = worst_link(carriers(stage), carriers(stage + 1));
      const auto [few, many] = std::minmax({largest_group(stage), largest_group(stage + 1)});
      const auto copies = static_cast<double>((many + few - 1) / few);
      const double bytes = sizeof(float) * costs_.stages[stage + 1].inputs * copies;
      costs.push_back({.seconds = link.bytes_per_s > 0 ? bytes / link.bytes_per_s : 0,
                       .latency_s = link.latency_s});
    }
    return costs;
  }

  /// Seconds that these peers take to sum this many gradients.
  double sum_s(double weights, const std::vector<std::uint32_t>& ranks) const {
    if (ranks.size() < 2 || weights <= 0) return 0;
    SplitLayer only_weights;
    only_weights.weights = weights;
    return layer_cost(only_weights, {}, group_of_ranks(ranks), {.samples = ranks.size()},
                      site_.rounds)
        .weights_s;
  }

  /// The longest time in seconds that a peer spends on summing gradients. A peer sums those of its
  /// stages one after another.
  double longest_sum() const {
    std::vector<double> at(layout_.stages.size(), 0);
    for (std::size_t stage = 0; stage < workers_.size(); ++stage) {
      const double sliced = largest_group(stage) > 1 ? costs_.stages[stage].sliced_weights() : 0;
      std::vector<std::uint32_t> first;
      std::size_t least = layout_.stages.size();
      for (const std::uint32_t worker : workers_[stage]) {
        const auto& members = layout_.groups.members[worker];
        first.push_back(members.front());
        least = std::min(least, members.size());
      }
      const double seconds = sum_s(costs_.stages[stage].weights - sliced, carriers(stage)) +
                             sum_s(sliced / static_cast<double>(least), first);
      for (const std::uint32_t rank : carriers(stage)) at[rank] += seconds;
    }
    return *std::ranges::max_element(at);
  }

  /// Seconds for the end of a step, when every peer sends a message to every other peer over
  /// control links. Pairs without a usable lane, whose bandwidth is set to one byte a second, do
  /// not count here.
  double completion_s() const {
    double longest = 0;
    for (std::size_t a = 0; a < site_.links.size(); ++a) {
      for (std::size_t b = 0; b < site_.links.size(); ++b) {
        const SplitLink& link = site_.links[a][b];
        const bool has_lane = link.bytes_per_s == 0 || link.bytes_per_s > 1;
        if (a != b && has_lane) longest = std::max(longest, link.latency_s);
      }
    }
    return longest;
  }

  const StageLayout& layout_;
  const LayoutCosts& costs_;
  const SplitSite& site_;
  std::vector<std::vector<std::uint32_t>> workers_;  ///< For each stage, the groups that carry it.
  std::vector<std::vector<double>> pass_s_;  ///< Seconds of a pass for each group, by stage.
};

/// Gives peers of nearly equal speed their mean speed. The planner forms several groups only from
/// peers of exactly equal speed, and measured speeds are never exactly equal.
SplitSite with_equal_speeds(SplitSite site) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < site.peers.size(); ++i) order.push_back(i);
  const auto speed = [&](std::size_t i) { return site.peers[i].operations_per_s; };
  std::ranges::stable_sort(order, std::ranges::greater{}, speed);
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    double sum = 0;
    const double least = (1 - worth_changing) * speed(order[begin]);
    while (end < order.size() && speed(order[end]) >= least) sum += speed(order[end++]);
    for (std::size_t i = begin; i < end; ++i) {
      site.peers[order[i]].operations_per_s = sum / static_cast<double>(end - begin);
    }
  }
  return site;
}

std::size_t in_common(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  return static_cast<std::size_t>(std::ranges::count_if(
      a, [&](std::uint32_t stage) { return std::ranges::binary_search(b, stage); }));
}

/// The stage that each rank must carry, if any. The span is empty if no rank is pinned.
using Pins = std::span<const std::optional<std::uint32_t>>;

bool keeps_pins(const std::vector<std::vector<std::uint32_t>>& stages, Pins pins) {
  for (std::size_t rank = 0; rank < pins.size(); ++rank) {
    if (pins[rank] && !std::ranges::binary_search(stages[rank], *pins[rank])) return false;
  }
  return true;
}

/// Swaps the stages of equally fast peers if more stages then stay where `present` has them.
void keep_places(std::vector<std::vector<std::uint32_t>>& stages, const StageLayout& present,
                 const SplitSite& equal, Pins pins) {
  for (std::size_t a = 0; a < stages.size(); ++a) {
    for (std::size_t b = a + 1; b < stages.size(); ++b) {
      if (equal.peers[a].operations_per_s != equal.peers[b].operations_per_s) continue;
      const auto stay = [&] {
        return in_common(stages[a], present.stages[a]) + in_common(stages[b], present.stages[b]);
      };
      const std::size_t before = stay();
      std::swap(stages[a], stages[b]);
      if (stay() <= before || !keeps_pins(stages, pins)) std::swap(stages[a], stages[b]);
    }
  }
}

/// A layout in the making: the stages of each rank, and the size of groups by their first stage.
struct Draft {
  std::vector<std::vector<std::uint32_t>> stages;
  std::map<std::uint32_t, std::size_t> members;

  friend auto operator<=>(const Draft&, const Draft&) = default;
};

/// Turns a draft into a layout. Peers form groups only if all their stages can be shared.
StageLayout layout_of(Draft draft, const LayoutCosts& costs) {
  std::vector<GroupSize> sizes;
  for (const auto& stages : draft.stages) {
    const bool can_share = std::ranges::all_of(
        stages, [&](std::uint32_t stage) { return !costs.stages[stage].units.empty(); });
    const std::size_t members = can_share ? draft.members[stages.front()] : 1;
    sizes.push_back({.least = 1, .most = members});
  }
  PeerGroups groups = peer_groups(draft.stages, sizes);
  return {std::move(draft.stages), std::move(groups)};
}

Draft draft_of(const SplitPlan& plan, const StageLayout& present, const SplitSite& equal,
               Pins pins) {
  Draft draft{.stages = std::vector<std::vector<std::uint32_t>>(equal.peers.size()), .members = {}};
  for (const SplitStage& planned : plan.stages) {
    const SplitState& state = plan.layers[planned.first].state;
    for (std::size_t stage = planned.first; stage < planned.last; ++stage) {
      draft.members[static_cast<std::uint32_t>(stage)] = state.ways;
      for (const std::size_t peer : plan.groups[state.group].peers) {
        draft.stages[peer].push_back(static_cast<std::uint32_t>(stage));
      }
    }
  }
  keep_places(draft.stages, present, equal, pins);
  return draft;
}

/// Drafts in which one peer joins another at its stages, or two peers swap their stages.
std::vector<Draft> neighbours(const Draft& draft) {
  std::vector<Draft> found;
  const std::size_t peers = draft.stages.size();
  for (std::size_t a = 0; a < peers; ++a) {
    for (std::size_t b = 0; b < peers; ++b) {
      if (draft.stages[a] == draft.stages[b]) continue;
      if (std::ranges::count(draft.stages, draft.stages[a]) > 1) {
        found.push_back(draft);
        found.back().stages[a] = draft.stages[b];
      }
      if (a > b) continue;
      found.push_back(draft);
      std::swap(found.back().stages[a], found.back().stages[b]);
    }
  }
  return found;
}

/// The number of stages and slices that peers carry. A peer alone in its group has all slices.
std::size_t assignments_of(const StageLayout& layout, const LayoutCosts& costs) {
  std::size_t count = 0;
  for (const auto& members : layout.groups.members) {
    for (const std::uint32_t stage : layout.stages[members.front()]) {
      const SplitLayer& carried = costs.stages[stage];
      count += members.size() + (carried.units.empty() ? 0 : carried.slices);
    }
  }
  return count;
}

/// The measured cost of each operation, in steps of SearchBudget.
constexpr std::uint64_t steps_of_pass = 60;    ///< For each stage and micro-batch of a prediction.
constexpr std::uint64_t steps_of_draft = 150;  ///< For each peer of a draft.

/// Finds the best draft by moving from draft to neighbour as long as a neighbour is better.
class Climb {
 public:
  Climb(const LayoutCosts& costs, const SplitSite& site, Pins pins, SearchBudget& budget)
      : costs_(costs), site_(site), pins_(pins), budget_(budget) {}

  /// Adds a draft from which to start.
  void add(Draft draft) {
    const double seconds = seconds_of(draft);
    if (seconds == std::numeric_limits<double>::infinity()) return;
    starts_.push_back({seconds, std::move(draft)});
  }

  /// Climbs from each start, the fastest first. Returns the best draft found.
  std::optional<StageLayout> best() {
    std::ranges::stable_sort(starts_, {}, &Start::seconds);
    double least = std::numeric_limits<double>::infinity();
    std::optional<Draft> best;
    for (Start& start : starts_) {
      climb(start);
      if (!(start.seconds < least)) continue;
      least = start.seconds;
      best = std::move(start.draft);
    }
    return best ? std::optional(layout_of(*best, costs_)) : std::nullopt;
  }

 private:
  struct Start {
    double seconds = 0;
    Draft draft;
  };

  void climb(Start& at) {
    for (bool improved = true; improved && !budget_.is_spent();) {
      improved = false;
      for (Draft& next : neighbours(at.draft)) {
        const double own = seconds_of(next);
        if (!(own < at.seconds)) continue;
        at = {own, std::move(next)};
        improved = true;
        break;
      }
    }
  }

  /// The predicted seconds of a step. Infinite for a draft that cannot be used, and for every new
  /// draft once the budget is spent.
  double seconds_of(const Draft& draft) {
    constexpr double unusable = std::numeric_limits<double>::infinity();
    if (!budget_.take(steps_of_draft * draft.stages.size())) return unusable;
    if (const auto known = known_.find(draft); known != known_.end()) return known->second;
    double seconds = unusable;
    if (keeps_pins(draft.stages, pins_)) {
      const StageLayout layout = layout_of(draft, costs_);
      if (assignments_of(layout, costs_) <= assignments_max) {
        const std::size_t passes = costs_.stages.size() * costs_.micro_batches;
        if (!budget_.take(steps_of_pass * passes)) return unusable;
        seconds = predicted_step(layout, costs_, site_);
      }
    }
    known_.emplace(draft, seconds);
    return seconds;
  }

  const LayoutCosts& costs_;
  const SplitSite& site_;
  Pins pins_;
  SearchBudget& budget_;
  std::vector<Start> starts_;
  std::map<Draft, double> known_;  ///< The predicted seconds of all drafts so far.
};

/// The planner's best plans for each number of stages and each size of groups, the fastest first.
std::vector<SplitPlan> candidates(const SplitQuestion& question, const LayoutCosts& costs,
                                  SearchBudget& budget) {
  const std::size_t peers = question.site.peers.size();
  std::vector<SplitPlan> all;
  PlanSearch search(question);
  for (std::size_t group = 1; group <= std::min(costs.group, peers); ++group) {
    const SplitChoice choice{
        .all_peers = true, .group = group, .stages_max = std::min(peers, costs.stages.size())};
    for (std::vector<SplitPlan>& plans : search.best_by_stages(choice, budget)) {
      std::ranges::move(plans, std::back_inserter(all));
    }
  }
  std::ranges::stable_sort(all, {}, &SplitPlan::seconds);
  return all;
}

}  // namespace

double predicted_step(const StageLayout& layout, const LayoutCosts& costs, const SplitSite& site) {
  return StepClock(layout, costs, site).seconds();
}

std::optional<StageLayout> best_layout(const StageLayout& present, const LayoutCosts& costs,
                                       const SplitSite& site,
                                       std::span<const std::optional<std::uint32_t>> pins) {
  SearchBudget budget(layout_steps_max);
  return best_layout(present, costs, site, pins, budget);
}

std::optional<StageLayout> best_layout(const StageLayout& present, const LayoutCosts& costs,
                                       const SplitSite& site,
                                       std::span<const std::optional<std::uint32_t>> pins,
                                       SearchBudget& budget) {
  const std::size_t peers = site.peers.size();
  if (peers > planned_peers_max || costs.stages.size() > planned_stages_max) return std::nullopt;
  SplitQuestion question{.layers = costs.stages,
                         .site = with_equal_speeds(site),
                         .samples = costs.micro_batches,
                         .micro_batches = {costs.micro_batches},
                         .groups = {},
                         .pins_name_layers = true};
  for (std::size_t rank = 0; rank < pins.size(); ++rank) {
    if (pins[rank]) question.pins.push_back({.peer = rank, .at = *pins[rank]});
  }
  // The other steps are left for predictions, and half of these for improving the candidates.
  SearchBudget search = budget.part(0.6);
  const std::vector<SplitPlan> plans = candidates(question, costs, search);
  budget.take(search.taken());
  const std::uint64_t enough = budget.left() / 2;
  Climb climb(costs, site, pins, budget);
  for (const SplitPlan& plan : plans) {
    if (budget.left() <= enough) break;
    climb.add(draft_of(plan, present, question.site, pins));
  }
  return climb.best();
}

}  // namespace gv
