// Combines the best states of layers into plans with one or more stages.
#include "consensus/split/split_plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.hpp"
#include "consensus/split/plan_search.hpp"

namespace gv {
namespace {

/// The cost of assembling a plan, in steps of SearchBudget for each layer.
constexpr std::uint64_t steps_of_plan = 200;

/// The kind of sharing to report. A peer alone in its block has whole layers, so `slices` then
/// counts as `samples`.
SplitKind kind_of(const SplitState& state) {
  return state.kind == SplitKind::slices && state.ways == 1 ? SplitKind::samples : state.kind;
}

bool is_same_plan(const SplitPlan& a, const SplitPlan& b) {
  if (a.micro_batches != b.micro_batches || a.stages.size() != b.stages.size()) return false;
  for (std::size_t s = 0; s < a.stages.size(); ++s) {
    if (a.stages[s].last != b.stages[s].last) return false;
  }
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    const SplitState& x = a.layers[i].state;
    const SplitState& y = b.layers[i].state;
    if (kind_of(x) != kind_of(y) || x.ways != y.ways) return false;
    if (a.groups[x.group].peers != b.groups[y.group].peers) return false;
  }
  return true;
}

SplitPlan assembled(const SplitQuestion& question, const std::vector<ChosenStage>& chosen,
                    std::size_t micro_batches) {
  SplitPlan plan{.micro_batches = micro_batches};
  plan.memory_bytes.resize(question.site.peers.size());
  const auto count = static_cast<double>(micro_batches);
  double pace = 0;
  double busiest = 0;
  for (const ChosenStage& stage : chosen) {
    SplitStage& planned = plan.stages.emplace_back(SplitStage{
        .first = stage.first, .last = stage.first, .peers = stage.peers, .members = stage.members});
    stage.search->add_memory(stage.first, stage.chain->states, plan.memory_bytes);
    for (PlannedLayer& layer : stage.search->planned(stage.first, stage.chain->states)) {
      const SplitGroup& group = stage.search->groups()[layer.state.group];
      const auto known = std::ranges::find(plan.groups, group.peers, &SplitGroup::peers);
      layer.state.group = static_cast<std::size_t>(known - plan.groups.begin());
      if (known == plan.groups.end()) plan.groups.push_back(group);
      planned.busy_s += layer.cost.seconds();
      plan.layers.push_back(std::move(layer));
    }
    planned.last += stage.chain->states.size();
    if (plan.stages.size() > 1) {
      SplitStage& earlier = plan.stages[plan.stages.size() - 2];
      const double bytes = static_cast<double>(question.samples) *
                           question.layers[stage.first].inputs * sizeof(float);
      earlier.transfer_bytes = bytes;
      earlier.transfer_s = stage.transfer_s(bytes / count);
      plan.seconds += 2 * earlier.transfer_s;
      pace = std::max(pace, earlier.transfer_s);
    }
    plan.seconds += planned.busy_s / count;
    pace = std::max(pace, planned.busy_s / count);
    busiest = std::max(busiest, planned.busy_s);
  }
  plan.seconds += (count - 1) * pace;
  plan.waiting_s = plan.seconds - busiest;
  return plan;
}

}  // namespace

SplitCost SplitPlan::cost() const {
  const auto busiest = std::ranges::max_element(stages, {}, &SplitStage::busy_s);
  SplitCost sum;
  for (std::size_t i = busiest->first; i < busiest->last; ++i) sum += layers[i].cost;
  return sum;
}

double SplitPlan::bytes() const {
  double most = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    double sum =
        s > 0 ? stages[s - 1].transfer_bytes * static_cast<double>(stages[s - 1].members) : 0;
    if (s + 1 < stages.size()) {
      sum += stages[s].transfer_bytes * static_cast<double>(stages[s + 1].members);
    }
    sum /= static_cast<double>(stages[s].peers);
    for (std::size_t i = stages[s].first; i < stages[s].last; ++i) sum += layers[i].cost.bytes;
    most = std::max(most, sum);
  }
  return most;
}

bool SplitPlan::has_groups() const {
  return std::ranges::any_of(stages, [](const SplitStage& stage) { return stage.members > 1; });
}

bool SplitPlan::uses(std::size_t peer) const {
  return std::ranges::any_of(groups, [&](const SplitGroup& group) {
    return std::ranges::find(group.peers, peer) != group.peers.end();
  });
}

void keep_plan(std::vector<SplitPlan>& best, SplitPlan plan) {
  const auto same = [&](const SplitPlan& other) { return is_same_plan(plan, other); };
  if (std::ranges::none_of(best, same)) keep_two(best, std::move(plan));
}

std::vector<SplitPlan> best_plans(const SplitQuestion& question, const SplitChoice& choice) {
  SearchBudget unlimited;
  return PlanSearch(question).best(choice, unlimited);
}

PlanSearch::PlanSearch(const SplitQuestion& question) : question_(question), slices_(question) {
  check(!question.layers.empty() && !question.site.peers.empty(), "there is something to share");
}

std::vector<SplitPlan> PlanSearch::best(const SplitChoice& choice, SearchBudget& budget) {
  std::vector<SplitPlan> best;
  const bool may_lack_stages = choice.stages_min <= 1 && choice.group == 0;
  // A single peer carries all layers, as if they were stage 0.
  const bool keeps_pins =
      question_.pins.empty() ||
      (question_.site.peers.size() == 1 && !question_.pins_name_layers &&
       std::ranges::all_of(question_.pins, [](const SplitPin& pin) { return pin.at == 0; }));
  if (may_lack_stages && keeps_pins) best = without_stages(choice, budget);
  const auto keep = [&](const StageSearch::Partial& found, std::size_t micro_batches) {
    keep_found(best, choice, found, micro_batches, budget);
  };
  if (choice.stages_max >= 2 || choice.group > 0) with_stages(choice, false, budget, keep);
  return best;
}

std::vector<std::vector<SplitPlan>> PlanSearch::best_by_stages(const SplitChoice& choice,
                                                               SearchBudget& budget) {
  std::vector<std::vector<SplitPlan>> best(choice.stages_max);
  with_stages(choice, true, budget,
              [&](const StageSearch::Partial& found, std::size_t micro_batches) {
                keep_found(best[found.stages - 1], choice, found, micro_batches, budget);
              });
  return best;
}

template <class Keep>
void PlanSearch::with_stages(const SplitChoice& choice, bool by_stages, SearchBudget& budget,
                             const Keep& keep) {
  const auto orders = orders_of(question_.site, question_.pins);
  for (const std::size_t micro_batches : question_.micro_batches) {
    StageSegments segments(question_, choice, micro_batches, slices_);
    for (const auto& order : orders) {
      if (budget.is_spent()) return;
      StageSearch search(segments, order, by_stages, budget);
      for (const StageSearch::Partial* found : search.find()) keep(*found, micro_batches);
    }
  }
}

std::vector<SplitPlan> PlanSearch::without_stages(const SplitChoice& choice, SearchBudget& budget) {
  std::vector<std::size_t> peers(question_.site.peers.size());
  std::iota(peers.begin(), peers.end(), std::size_t{0});
  StateSearch search(
      question_,
      question_.groups.empty() ? candidate_groups(question_.site, peers) : question_.groups,
      {.samples = question_.samples});
  std::vector<SplitPlan> best;
  const auto chains = search.chains_from(0, choice, budget);
  for (const StateChain& chain : chains.back()) {
    keep_plan(best, assembled(question_, {{.search = &search, .chain = &chain, .link = {}}}, 1));
  }
  return best;
}

/// Assembles the plan and adds it to `best`, unless it is certainly slower than both plans there.
void PlanSearch::keep_found(std::vector<SplitPlan>& best, const SplitChoice& choice,
                            const StageSearch::Partial& found, std::size_t micro_batches,
                            SearchBudget& budget) const {
  // The assembled plan has the same time, except for rounding.
  const double seconds = found.fill + static_cast<double>(micro_batches - 1) * found.pace;
  if (best.size() == 2 && seconds > (1 + 1e-9) * best.back().seconds) return;
  budget.take(steps_of_plan * question_.layers.size());
  SplitPlan plan = assembled(question_, StageSearch::stages_of(found), micro_batches);
  plan.group = choice.group;
  keep_plan(best, std::move(plan));
}

SplitPlan plan_of(const SplitQuestion& question, std::span<const SplitGroup> groups,
                  std::span<const SplitState> states) {
  check(states.size() == question.layers.size(), "one state for each layer");
  const StateSearch search(question, {groups.begin(), groups.end()}, {.samples = question.samples});
  StateChain chain;
  chain.states.assign(states.begin(), states.end());
  return assembled(question, {{.search = &search, .chain = &chain, .link = {}}}, 1);
}

}  // namespace gv
