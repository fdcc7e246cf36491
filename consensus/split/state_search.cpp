// Finds the cheapest states of layers by dynamic programming.
#include "consensus/split/state_search.hpp"

#include <algorithm>
#include <utility>

namespace gv {
namespace {

/// The largest number of candidates kept for one state of one layer.
constexpr std::size_t labels_max = 64;

bool is_allowed(const SplitState& state, const SplitChoice& choice) {
  if (state.kind == SplitKind::factors) return choice.may_use_factors;
  return state.kind == SplitKind::samples || choice.may_split_layers;
}

/// The layers from `first` on, in the form in which these states share them.
std::vector<SplitLayer> layers_of(const SplitQuestion& question, std::size_t first,
                                  std::span<const SplitState> states) {
  const std::size_t last = first + states.size();
  if (states.front().kind == SplitKind::slices) return in_stage(question.layers, first, last);
  return {question.layers.begin() + static_cast<std::ptrdiff_t>(first),
          question.layers.begin() + static_cast<std::ptrdiff_t>(last)};
}

}  // namespace

StateSearch::StateSearch(const SplitQuestion& question, std::vector<SplitGroup> groups,
                         SplitBatch batch)
    : question_(&question),
      groups_(std::move(groups)),
      batch_(batch),
      is_limited_(std::ranges::any_of(
          question.site.peers, [](const SplitPeer& peer) { return peer.memory_bytes > 0; })) {
  for (const SplitGroup& a : groups_) {
    for (const SplitGroup& b : groups_) {
      std::vector<std::size_t> peers = a.peers;
      for (const std::size_t peer : b.peers) {
        if (std::ranges::find(peers, peer) == peers.end()) peers.push_back(peer);
      }
      unions_.push_back(group_of(question.site, std::move(peers)));
    }
  }
}

SplitCost StateSearch::cost(std::size_t layer, const SplitState& state) const {
  return layer_cost(question_->layers[layer], state, groups_[state.group], batch_,
                    question_->site.rounds);
}

SplitCost StateSearch::edge(std::size_t layer, const SplitState& state,
                            const SplitState& before) const {
  return edge_cost(question_->layers[layer].inputs, before, groups_[before.group], state,
                   groups_[state.group], both(before.group, state.group), batch_,
                   question_->site.rounds);
}

std::vector<PlannedLayer> StateSearch::planned(std::size_t first,
                                               std::span<const SplitState> states) const {
  const std::vector<SplitLayer> layers = layers_of(*question_, first, states);
  std::vector<PlannedLayer> planned;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const SplitGroup& group = groups_[states[i].group];
    PlannedLayer& own = planned.emplace_back(PlannedLayer{.state = states[i]});
    own.cost = layer_cost(layers[i], states[i], group, batch_, question_->site.rounds);
    own.shares = shares_of(layers[i], states[i], group, batch_);
    // With `slices`, all members of a block hold the activations between layers.
    if (i > 0 && states[i].kind != SplitKind::slices) {
      own.cost += edge(first + i, states[i], states[i - 1]);
    }
  }
  return planned;
}

void StateSearch::add_memory(std::size_t first, std::span<const SplitState> states,
                             std::vector<double>& bytes) const {
  const std::vector<SplitLayer> layers = layers_of(*question_, first, states);
  for (std::size_t i = 0; i < states.size(); ++i) {
    const SplitGroup& group = groups_[states[i].group];
    const double per_weight = states[i].kind == SplitKind::slices
                                  ? question_->bytes_per_sliced_weight
                                  : question_->bytes_per_weight;
    const std::vector<double> own = layer_memory(layers[i], states[i], group, batch_, per_weight);
    for (std::size_t p = 0; p < group.size(); ++p) bytes[group.peers[p]] += own[p];
  }
}

bool StateSearch::fits(const std::vector<double>& bytes) const {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const double limit = question_->site.peers[i].memory_bytes;
    if (limit > 0 && bytes[i] > limit) return false;
  }
  return true;
}

std::vector<StateSearch::Label> StateSearch::extended(std::size_t layer, const SplitState& state,
                                                      const std::vector<Label>* before) const {
  std::vector<double> own;
  if (is_limited_) {
    own.resize(question_->site.peers.size());
    add_memory(layer, {&state, 1}, own);
  }
  std::vector<Label> found;
  const auto add = [&](double seconds, const std::vector<double>* memory, std::size_t at) {
    Label label{.seconds = seconds, .memory_bytes = own, .state = state, .before = at};
    for (std::size_t i = 0; memory != nullptr && i < own.size(); ++i) {
      label.memory_bytes[i] += (*memory)[i];
    }
    if (fits(label.memory_bytes)) found.push_back(std::move(label));
  };
  const double seconds = cost(layer, state).seconds();
  if (before == nullptr) add(seconds, nullptr, 0);
  for (std::size_t i = 0; before != nullptr && i < before->size(); ++i) {
    const Label& label = (*before)[i];
    const double moved = edge(layer, state, label.state).seconds();
    add(label.seconds + seconds + moved, &label.memory_bytes, i);
  }
  std::ranges::stable_sort(found, {}, &Label::seconds);
  std::vector<Label> kept;
  for (Label& label : found) {
    const auto beaten = std::ranges::count_if(kept, [&](const Label& other) {
      return std::ranges::equal(other.memory_bytes, label.memory_bytes, std::ranges::less_equal{});
    });
    if (beaten < 2 && kept.size() < labels_max) kept.push_back(std::move(label));
  }
  return kept;
}

void StateSearch::append_chains(std::size_t first, const States& states,
                                std::vector<std::vector<StateChain>>& chains) const {
  std::vector<std::vector<Label>> labels;
  for (std::size_t layer = first; layer < question_->layers.size(); ++layer) {
    std::vector<Label> here;
    for (const SplitState& state : states[layer - first]) {
      std::vector<Label> own = extended(layer, state, labels.empty() ? nullptr : &labels.back());
      std::ranges::move(own, std::back_inserter(here));
    }
    labels.push_back(std::move(here));
    for (const Label& label : labels.back()) {
      std::vector<StateChain>& best = chains[layer - first];
      if (best.size() == 2 && best.back().seconds <= label.seconds) continue;
      StateChain chain{.seconds = label.seconds};
      const Label* at = &label;
      for (std::size_t i = labels.size(); i-- > 0;) {
        chain.states.push_back(at->state);
        if (i > 0) at = &labels[i - 1][at->before];
      }
      std::ranges::reverse(chain.states);
      chain.memory_bytes.resize(question_->site.peers.size());
      add_memory(first, chain.states, chain.memory_bytes);
      keep_two(best, std::move(chain));
    }
  }
}

/// The state in which a running pipeline shares a stage among all peers of the first group: as few
/// blocks as possible, of at most `most` peers each. Returns nullopt if the blocks would differ in
/// size or speed, since we do not know which peers each would have. Also returns nullopt if there
/// are fewer micro-batches than blocks.
std::optional<SplitState> StateSearch::state_by_slices(std::size_t first, std::size_t last,
                                                       std::size_t most) const {
  const SplitGroup& group = groups_.front();
  std::size_t size = 1;
  for (const SplitLayer& layer : std::span(question_->layers).subspan(first, last - first)) {
    if (!layer.units.empty()) size = std::min(most, layer.slices);
  }
  const std::size_t blocks = (group.size() + size - 1) / size;
  if (group.size() % blocks != 0 || blocks > batch_.micro_batches) return std::nullopt;
  const std::size_t ways = group.size() / blocks;
  const bool alike = group.speeds.front() == group.speeds.back();
  if (ways > 1 && blocks > 1 && !alike) return std::nullopt;
  return SplitState{SplitKind::slices, 0, ways};
}

std::vector<std::vector<StateChain>> StateSearch::chains_by_slices(std::size_t first,
                                                                   std::size_t most) const {
  std::vector<std::vector<StateChain>> chains;
  for (std::size_t last = first + 1; last <= question_->layers.size(); ++last) {
    chains.emplace_back();
    const std::optional<SplitState> state = state_by_slices(first, last, most);
    if (!state) continue;
    StateChain chain{.states = std::vector<SplitState>(last - first, *state)};
    chain.memory_bytes.resize(question_->site.peers.size());
    add_memory(first, chain.states, chain.memory_bytes);
    if (!fits(chain.memory_bytes)) continue;
    for (const PlannedLayer& layer : planned(first, chain.states)) {
      chain.seconds += layer.cost.seconds();
    }
    chains.back().push_back(std::move(chain));
  }
  return chains;
}

std::vector<std::vector<StateChain>> StateSearch::chains_from(std::size_t first,
                                                              const SplitChoice& choice) const {
  if (choice.group > 0) return chains_by_slices(first, choice.group);
  const std::vector<SplitLayer>& layers = question_->layers;
  std::vector<std::vector<StateChain>> chains(layers.size() - first);
  std::optional<std::size_t> tied;
  for (std::size_t layer = first; layer < layers.size(); ++layer) {
    if (layers[layer].tied_to && *layers[layer].tied_to >= first) tied = layer;
  }
  // For each layer, all its states, or only those on the group `only`.
  const auto states_on = [&](std::optional<std::size_t> only) {
    States states;
    for (std::size_t layer = first; layer < layers.size(); ++layer) {
      states.emplace_back();
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        if (only && g != *only) continue;
        std::ranges::copy_if(states_of(layers[layer], groups_[g], g, batch_),
                             std::back_inserter(states.back()),
                             [&](const SplitState& state) { return is_allowed(state, choice); });
      }
    }
    return states;
  };
  const auto append = [&](const States& states) {
    if (!tied) return append_chains(first, states, chains);
    // Two layers that share a table must have the same state, so each state of the first is tried
    // for both.
    const std::size_t anchor = *layers[*tied].tied_to - first;
    for (const SplitState& state : states[anchor]) {
      if (std::ranges::find(states[*tied - first], state) == states[*tied - first].end()) continue;
      States fixed = states;
      fixed[anchor] = {state};
      fixed[*tied - first] = {state};
      append_chains(first, fixed, chains);
    }
  };
  if (!choice.one_group) append(states_on(std::nullopt));
  for (std::size_t g = 0; choice.one_group && g < groups_.size(); ++g) append(states_on(g));
  return chains;
}

}  // namespace gv
