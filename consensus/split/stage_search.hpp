// Searches for the stages of plans: which layers each has, and which peers carry it.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "consensus/split/search_budget.hpp"
#include "consensus/split/split_plan.hpp"
#include "consensus/split/state_search.hpp"

namespace gv {

/// A stage of a plan in the making.
struct ChosenStage {
  std::size_t first = 0;
  const StateSearch* search = nullptr;
  const StateChain* chain = nullptr;
  SplitLink link;         ///< The link to the stage before. Unused in the first stage.
  std::size_t links = 1;  ///< Number of links to the previous stage that work at the same time.
  /// Number of copies of a micro-batch that a peer of the previous stage sends one after the other.
  std::size_t copies = 1;
  std::size_t peers = 1;
  std::size_t members = 1;  ///< Number of peers in a block, all of which receive the inputs.

  /// Seconds until `bytes` of a micro-batch have arrived from the stage before.
  double transfer_s(double bytes) const {
    return link.seconds(bytes * static_cast<double>(copies) / static_cast<double>(links));
  }
};

/// Searches of stages that are shared by slices. They do not depend on the setting `group`, so plan
/// searches with different values of `group` can share them.
class SliceSearches {
 public:
  explicit SliceSearches(const SplitQuestion& question)
      : question_(question), forms_(question.layers) {}

  /// `peers` must be sorted.
  StateSearch& of(const std::vector<std::size_t>& peers, const SplitBatch& batch);
  StageForms& forms() { return forms_; }

 private:
  const SplitQuestion& question_;
  StageForms forms_;
  /// Keyed by number of micro-batches, micro-batches in flight, and peers.
  std::map<std::tuple<std::size_t, std::size_t, std::vector<std::size_t>>, StateSearch> searches_;
};

/// The best states of every possible stage, for every set of peers, each computed when it is first
/// needed. The question, the choice and `slices` must outlive this object.
class StageSegments {
 public:
  /// The stages that one set of peers can carry.
  struct Of {
    StateSearch* search = nullptr;
    std::optional<StateSearch> own;  ///< The search; empty if SliceSearches owns it.
    std::map<std::size_t, std::vector<std::vector<StateChain>>> chains;  ///< Keyed by first layer.
  };

  StageSegments(const SplitQuestion& question, const SplitChoice& choice, std::size_t micro_batches,
                SliceSearches& slices)
      : question_(question), choice_(choice), micro_batches_(micro_batches), slices_(slices) {}

  Of& of(std::vector<std::size_t> peers);
  /// The best chains from layer `first` on, as in StateSearch::chains_from().
  const std::vector<std::vector<StateChain>>& chains(Of& of, std::size_t first,
                                                     SearchBudget& budget);

  const SplitQuestion& question() const { return question_; }
  const SplitChoice& choice() const { return choice_; }
  std::size_t micro_batches() const { return micro_batches_; }

 private:
  const SplitQuestion& question_;
  const SplitChoice& choice_;
  std::size_t micro_batches_;
  SliceSearches& slices_;
  std::map<std::vector<std::size_t>, Of> made_;  ///< Keyed by the peers.
};

/// Searches for plans with stages. The peers of a stage follow each other in the given order.
class StageSearch {
 public:
  /// The first stages of a plan.
  struct Partial {
    double pace = 0;  ///< Seconds between two micro-batches.
    double fill = 0;  ///< Seconds that one micro-batch takes through the stages.
    bool has_groups = false;
    std::size_t stages = 1;
    ChosenStage last;
    const Partial* before = nullptr;  ///< The plan without its last stage; null if there is none.
  };

  /// With `by_stages`, finds the best plans for each number of stages.
  StageSearch(StageSegments& segments, std::vector<std::size_t> order, bool by_stages,
              SearchBudget& budget);

  /// The plans found, each given by its last stage. They include the two best ones, unless the
  /// budget is spent. Must be called only once. The plans live as long as this object.
  std::vector<const Partial*> find();

  static std::vector<ChosenStage> stages_of(const Partial& plan);

 private:
  /// Peers [begin, end) in the order.
  struct Run {
    std::size_t begin = 0;
    std::size_t end = 0;
    StageSegments::Of* segments = nullptr;
  };
  /// For each run of peers, the partial plans whose last stage is on that run.
  using Partials = std::vector<std::vector<const Partial*>>;

  void add(const Partial* before, std::size_t before_run, std::size_t first, std::size_t run);
  bool keeps_pins(std::size_t stage, std::size_t first, std::size_t last, const Run& run) const;
  bool is_complete(const Partial& plan, const Run& last) const;
  void connect(ChosenStage& stage, std::size_t before_run, std::size_t run, std::size_t members);
  const SplitLink& worst_link(std::size_t a, std::size_t b);
  void keep(std::vector<const Partial*>& partials, const Partial& candidate);

  StageSegments& segments_;
  const SplitQuestion& question_;
  const SplitChoice& choice_;
  std::vector<std::size_t> order_;
  std::size_t micro_batches_;
  bool compares_equal_counts_;
  SearchBudget& budget_;
  std::vector<Run> runs_;              ///< Sorted by begin and end.
  std::vector<std::size_t> run_from_;  ///< The first run that begins at each place or later.
  std::vector<std::optional<SplitLink>> links_;  ///< The worst link between two runs.
  std::vector<Partials> at_;                     ///< Indexed by the first layer not yet in a stage.
  std::deque<Partial> made_;
};

/// The orders in which peers are given stages. With at most four peers, these are all possible
/// orders. With more peers, they are one order by cluster and one by speed. If there are pins, each
/// of these two is replaced by two orders. In one, the pinned peers, in the places that they
/// occupy, are sorted by their pins. In the other, they come first.
std::vector<std::vector<std::size_t>> orders_of(const SplitSite& site,
                                                const std::vector<SplitPin>& pins);

}  // namespace gv
