// Answers several searches for plans to one question, with a limit on their work.
#pragma once

#include <cstddef>
#include <vector>

#include "consensus/split/search_budget.hpp"
#include "consensus/split/split_plan.hpp"
#include "consensus/split/stage_search.hpp"

namespace gv {

/// Searches as best_plans() does. The searches share intermediate results. The question must
/// outlive this object.
class PlanSearch {
 public:
  explicit PlanSearch(const SplitQuestion& question);

  /// The fastest plans, at most two. If the budget is spent, these are the best plans found until
  /// then; there may be none.
  std::vector<SplitPlan> best(const SplitChoice& choice, SearchBudget& budget);
  /// The fastest plans for each number of stages up to `choice.stages_max`. Element i has at most
  /// two plans with i + 1 stages. `choice.group` must be above 0.
  std::vector<std::vector<SplitPlan>> best_by_stages(const SplitChoice& choice,
                                                     SearchBudget& budget);

 private:
  std::vector<SplitPlan> without_stages(const SplitChoice& choice, SearchBudget& budget);
  template <class Keep>
  void with_stages(const SplitChoice& choice, bool by_stages, SearchBudget& budget,
                   const Keep& keep);
  void keep_found(std::vector<SplitPlan>& best, const SplitChoice& choice,
                  const StageSearch::Partial& found, std::size_t micro_batches,
                  SearchBudget& budget) const;

  const SplitQuestion& question_;
  SliceSearches slices_;
};

}  // namespace gv
