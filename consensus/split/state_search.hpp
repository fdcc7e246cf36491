// Finds the cheapest states of consecutive layers on given groups of peers.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "consensus/split/split_plan.hpp"

namespace gv {

/// One state for each layer of a stage.
struct StateChain {
  double seconds = 0;
  std::vector<double> memory_bytes;  ///< Memory that each peer of the site needs.
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

/// Finds the cheapest states of a question's layers on given groups. The question must outlive this
/// object.
class StateSearch {
 public:
  StateSearch(const SplitQuestion& question, std::vector<SplitGroup> groups, SplitBatch batch);

  const std::vector<SplitGroup>& groups() const { return groups_; }

  /// The best chains, at most two, for the layers from `first` to each possible end. Element i is
  /// for layers [first, first + i + 1). If `choice.group` is set, the first group shares all layers
  /// by slices.
  std::vector<std::vector<StateChain>> chains_from(std::size_t first,
                                                   const SplitChoice& choice) const;

  /// The layers from `first` on with these states. Each layer has its shares and its cost, which
  /// includes the exchange with the layer before it.
  std::vector<PlannedLayer> planned(std::size_t first, std::span<const SplitState> states) const;
  /// Adds the memory that these layers need to `bytes`, which has an entry for each peer of the
  /// site.
  void add_memory(std::size_t first, std::span<const SplitState> states,
                  std::vector<double>& bytes) const;

 private:
  /// The last state of a partial chain. `before` leads to the states before it.
  struct Label {
    double seconds = 0;
    std::vector<double> memory_bytes;  ///< Empty if no peer has a limit.
    SplitState state;
    std::size_t before = 0;  ///< Index in the previous layer's labels.
  };
  using States = std::vector<std::vector<SplitState>>;

  std::vector<std::vector<StateChain>> chains_by_slices(std::size_t first, std::size_t most) const;
  std::optional<SplitState> state_by_slices(std::size_t first, std::size_t last,
                                            std::size_t most) const;
  SplitCost cost(std::size_t layer, const SplitState& state) const;
  void append_chains(std::size_t first, const States& states,
                     std::vector<std::vector<StateChain>>& chains) const;
  std::vector<Label> extended(std::size_t layer, const SplitState& state,
                              const std::vector<Label>* before) const;
  SplitCost edge(std::size_t layer, const SplitState& state, const SplitState& before) const;
  bool fits(const std::vector<double>& bytes) const;
  const SplitGroup& both(std::size_t a, std::size_t b) const {
    return unions_[a * groups_.size() + b];
  }

  const SplitQuestion* question_;
  std::vector<SplitGroup> groups_;
  std::vector<SplitGroup> unions_;  ///< The union of each group with each other group.
  SplitBatch batch_;
  bool is_limited_ = false;  ///< True if the memory of some peer has a limit.
};

}  // namespace gv
