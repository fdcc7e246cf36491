// Finds the cheapest states of consecutive layers on given groups of peers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "consensus/split/search_budget.hpp"
#include "consensus/split/split_plan.hpp"

namespace gv {

/// One state for each layer of a stage.
struct StateChain {
  double seconds = 0;
  std::vector<SplitState> states;
};

/// Adds a plan or chain to `best`, which keeps the two with the least seconds.
template <class Ranked>
void keep_two(std::vector<Ranked>& best, Ranked candidate) {
  auto at = best.begin();
  while (at != best.end() && at->seconds <= candidate.seconds) ++at;
  best.insert(at, std::move(candidate));
  if (best.size() > 2) best.pop_back();
}

/// The layers of a model in each form that in_stage() gives them in some stage.
class StageForms {
 public:
  /// The layers must outlive this object.
  explicit StageForms(std::span<const SplitLayer> layers)
      : layers_(layers), of_layer_(layers.size()) {}

  /// For each of the layers [first, last), the number of its form in a stage that has exactly these
  /// layers.
  const std::vector<std::size_t>& in(std::size_t first, std::size_t last);
  const SplitLayer& operator[](std::size_t form) const { return forms_[form]; }

 private:
  std::span<const SplitLayer> layers_;
  std::vector<SplitLayer> forms_;
  std::vector<std::vector<std::size_t>> of_layer_;  ///< The numbers of each layer's forms.
  std::map<std::pair<std::size_t, std::size_t>, std::vector<std::size_t>> known_;
};

/// Finds the cheapest states of a question's layers on given groups. The question must outlive this
/// object, which keeps all costs that it has computed.
class StateSearch {
 public:
  StateSearch(const SplitQuestion& question, std::vector<SplitGroup> groups, SplitBatch batch);

  const std::vector<SplitGroup>& groups() const { return groups_; }

  /// The best chains, at most two, for the layers from `first` to each possible end. Element i is
  /// for layers [first, first + i + 1). Once the budget is spent, no more chains are found.
  /// `choice` must be the same in all calls, and its `group` 0.
  std::vector<std::vector<StateChain>> chains_from(std::size_t first, const SplitChoice& choice,
                                                   SearchBudget& budget);
  /// Like chains_from(), but the first group shares all layers by slices, with at most `most` peers
  /// in a block. Finds at most one chain for each end. `forms` must be those of the question's
  /// layers.
  std::vector<std::vector<StateChain>> chains_by_slices(std::size_t first, std::size_t most,
                                                        StageForms& forms, SearchBudget& budget);

  /// The layers from `first` on with these states. Each layer has its shares and its cost, which
  /// includes the exchange with the layer before it.
  std::vector<PlannedLayer> planned(std::size_t first, std::span<const SplitState> states) const;
  /// Adds the memory that these layers need to `bytes`, which has an entry for each peer of the
  /// site.
  void add_memory(std::size_t first, std::span<const SplitState> states,
                  std::vector<double>& bytes) const;

 private:
  /// A state of a layer, with its costs.
  struct Priced {
    SplitState state;
    double seconds = 0;
    std::vector<double> memory_bytes;  ///< For each peer in `limited_`.
    /// Seconds of the exchange with each state of the layer before; negative if not computed yet.
    std::vector<double> edges;
  };
  /// The last state of a partial chain. `before` leads to the states before it.
  struct Label {
    double seconds = 0;
    std::vector<double> memory_bytes;  ///< For each peer in `limited_`.
    std::size_t state = 0;             ///< Index in `priced_`.
    std::size_t before = 0;            ///< Index in the previous layer's labels.
  };
  /// For each layer from the first on, the indices in `priced_` of the states to try.
  using States = std::vector<std::vector<std::size_t>>;

  void price_layers(const SplitChoice& choice, SearchBudget& budget);
  std::optional<SplitState> state_by_slices(std::size_t first, std::size_t last,
                                            std::size_t most) const;
  std::optional<double> seconds_by_slices(std::size_t first, std::size_t last,
                                          const SplitState& state, StageForms& forms,
                                          SearchBudget& budget);
  void append_chains(std::size_t first, const States& states, SearchBudget& budget,
                     std::vector<std::vector<StateChain>>& chains);
  void extend(std::size_t layer, std::size_t state, const std::vector<Label>* before,
              SearchBudget& budget, std::vector<Label>& labels);
  double edge(std::size_t layer, std::size_t state, std::size_t before, SearchBudget& budget);
  SplitCost edge(std::size_t layer, const SplitState& state, const SplitState& before) const;
  bool fits(const std::vector<double>& bytes) const;
  std::vector<double> of_limited(const std::vector<double>& bytes) const;
  const SplitGroup& both(std::size_t a, std::size_t b) const;

  const SplitQuestion* question_;
  std::vector<SplitGroup> groups_;
  SplitBatch batch_;
  /// The peers in these groups whose memory cannot hold the whole model.
  std::vector<std::size_t> limited_;
  std::vector<std::vector<Priced>> priced_;  ///< The states of each layer.
  /// The unions of two groups of which neither contains the other.
  mutable std::map<std::pair<std::size_t, std::size_t>, SplitGroup> unions_;
  std::map<std::pair<std::size_t, std::size_t>, double> slice_seconds_;  ///< Key: form and ways.
  /// Seconds of chains by first layer, last layer and ways; infinite if the memory is too small.
  std::map<std::array<std::size_t, 3>, double> by_slices_;
};

}  // namespace gv
