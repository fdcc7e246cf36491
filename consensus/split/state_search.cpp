// Finds the cheapest states of layers by dynamic programming.
#include "consensus/split/state_search.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace gv {
namespace {

/// The largest number of candidates kept for one state of one layer.
constexpr std::size_t labels_max = 64;

/// The measured cost of each operation, in steps of SearchBudget.
constexpr std::uint64_t steps_of_cost = 15;  ///< For each peer of the group.
constexpr std::uint64_t steps_of_edge = 10;
constexpr std::uint64_t steps_of_form = 20;

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

/// An upper bound on the bytes that a peer can need for any part of the model.
double most_memory(const SplitQuestion& question, const SplitBatch& batch) {
  const double per_weight = std::max(question.bytes_per_weight, question.bytes_per_sliced_weight);
  const auto samples = static_cast<double>(batch.of_pass() * batch.in_flight);
  double bytes = 0;
  for (const SplitLayer& layer : question.layers) {
    bytes += per_weight * layer.weights + sizeof(float) * samples * (layer.inputs + layer.outputs);
  }
  return bytes;
}

}  // namespace

const std::vector<std::size_t>& StageForms::in(std::size_t first, std::size_t last) {
  const auto [entry, is_new] = known_.try_emplace({first, last});
  if (!is_new) return entry->second;
  const std::vector<SplitLayer> stage = in_stage(layers_, first, last);
  for (std::size_t i = 0; i < stage.size(); ++i) {
    std::vector<std::size_t>& own = of_layer_[first + i];
    const auto known =
        std::ranges::find_if(own, [&](std::size_t form) { return forms_[form] == stage[i]; });
    if (known == own.end()) {
      entry->second.push_back(forms_.size());
      own.push_back(forms_.size());
      forms_.push_back(stage[i]);
    } else {
      entry->second.push_back(*known);
    }
  }
  return entry->second;
}

StateSearch::StateSearch(const SplitQuestion& question, std::vector<SplitGroup> groups,
                         SplitBatch batch)
    : question_(&question), groups_(std::move(groups)), batch_(batch) {
  const double most = most_memory(question, batch);
  for (std::size_t peer = 0; peer < question.site.peers.size(); ++peer) {
    const double limit = question.site.peers[peer].memory_bytes;
    const bool is_used = std::ranges::any_of(groups_, [&](const SplitGroup& group) {
      return std::ranges::find(group.peers, peer) != group.peers.end();
    });
    if (limit > 0 && limit < most && is_used) limited_.push_back(peer);
  }
}

const SplitGroup& StateSearch::both(std::size_t a, std::size_t b) const {
  if (contains(groups_[a], groups_[b])) return groups_[a];
  if (contains(groups_[b], groups_[a])) return groups_[b];
  const auto [entry, is_new] = unions_.try_emplace({a, b});
  if (is_new) {
    std::vector<std::size_t> peers = groups_[a].peers;
    for (const std::size_t peer : groups_[b].peers) {
      if (std::ranges::find(peers, peer) == peers.end()) peers.push_back(peer);
    }
    entry->second = group_of(question_->site, std::move(peers));
  }
  return entry->second;
}

SplitCost StateSearch::edge(std::size_t layer, const SplitState& state,
                            const SplitState& before) const {
  return edge_cost(question_->layers[layer].inputs, before, groups_[before.group], state,
                   groups_[state.group], both(before.group, state.group), batch_,
                   question_->site.rounds);
}

double StateSearch::edge(std::size_t layer, std::size_t state, std::size_t before,
                         SearchBudget& budget) {
  double& seconds = priced_[layer][state].edges[before];
  if (seconds < 0) {
    const Priced& from = priced_[layer - 1][before];
    const Priced& to = priced_[layer][state];
    budget.take(steps_of_edge + groups_[from.state.group].size());
    seconds = edge(layer, to.state, from.state).seconds();
  }
  return seconds;
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

std::vector<double> StateSearch::of_limited(const std::vector<double>& bytes) const {
  std::vector<double> own;
  for (const std::size_t peer : limited_) own.push_back(bytes[peer]);
  return own;
}

bool StateSearch::fits(const std::vector<double>& bytes) const {
  for (std::size_t i = 0; i < limited_.size(); ++i) {
    if (bytes[i] > question_->site.peers[limited_[i]].memory_bytes) return false;
  }
  return true;
}

/// Computes the costs of all states that `choice` allows.
void StateSearch::price_layers(const SplitChoice& choice, SearchBudget& budget) {
  for (std::size_t layer = 0; layer < question_->layers.size(); ++layer) {
    std::vector<Priced>& own = priced_.emplace_back();
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (!budget.take(steps_of_cost * groups_[g].size())) return;
      for (const SplitState& state : states_of(question_->layers[layer], groups_[g], g, batch_)) {
        if (!is_allowed(state, choice)) continue;
        if (!budget.take(2 * steps_of_cost * groups_[g].size())) return;
        Priced priced{.state = state};
        priced.seconds =
            layer_cost(question_->layers[layer], state, groups_[g], batch_, question_->site.rounds)
                .seconds();
        if (!limited_.empty()) {
          std::vector<double> bytes(question_->site.peers.size());
          add_memory(layer, {&state, 1}, bytes);
          priced.memory_bytes = of_limited(bytes);
        }
        if (layer > 0) priced.edges.assign(priced_[layer - 1].size(), -1);
        own.push_back(std::move(priced));
      }
    }
  }
}

/// Appends the labels of the chains that continue those of `before` with this state.
void StateSearch::extend(std::size_t layer, std::size_t state, const std::vector<Label>* before,
                         SearchBudget& budget, std::vector<Label>& labels) {
  const Priced& own = priced_[layer][state];
  if (before == nullptr) {
    if (fits(own.memory_bytes)) labels.push_back({own.seconds, own.memory_bytes, state, 0});
    return;
  }
  std::vector<std::pair<double, std::size_t>> found;  // Seconds, and an index in `before`.
  for (std::size_t i = 0; i < before->size() && budget.take(1); ++i) {
    const Label& label = (*before)[i];
    const double moved = edge(layer, state, label.state, budget);
    found.emplace_back(label.seconds + own.seconds + moved, i);
  }
  // Without limits, only the two fastest matter.
  const std::size_t most = limited_.empty() ? std::min<std::size_t>(2, found.size()) : found.size();
  std::ranges::partial_sort(found, found.begin() + static_cast<std::ptrdiff_t>(most));
  found.resize(most);
  const std::size_t begin = labels.size();
  std::vector<double> bytes(limited_.size());
  for (const auto& [seconds, i] : found) {
    const std::size_t kept = labels.size() - begin;
    if (kept == labels_max || !budget.take(1 + kept * limited_.size() / 4)) return;
    for (std::size_t p = 0; p < bytes.size(); ++p) {
      bytes[p] = own.memory_bytes[p] + (*before)[i].memory_bytes[p];
    }
    if (!fits(bytes)) continue;
    const auto beaten = std::count_if(
        labels.begin() + static_cast<std::ptrdiff_t>(begin), labels.end(), [&](const Label& other) {
          return std::ranges::equal(other.memory_bytes, bytes, std::ranges::less_equal{});
        });
    if (beaten < 2) labels.push_back({seconds, bytes, state, i});
  }
}

void StateSearch::append_chains(std::size_t first, const States& states, SearchBudget& budget,
                                std::vector<std::vector<StateChain>>& chains) {
  std::vector<std::vector<Label>> labels;
  for (std::size_t layer = first; layer < question_->layers.size(); ++layer) {
    std::vector<Label> here;
    for (const std::size_t state : states[layer - first]) {
      extend(layer, state, labels.empty() ? nullptr : &labels.back(), budget, here);
    }
    if (budget.is_spent()) return;
    labels.push_back(std::move(here));
    for (const Label& label : labels.back()) {
      std::vector<StateChain>& best = chains[layer - first];
      if (best.size() == 2 && best.back().seconds <= label.seconds) continue;
      StateChain chain{.seconds = label.seconds, .states = {}};
      const Label* at = &label;
      for (std::size_t i = labels.size(); i-- > 0;) {
        chain.states.push_back(priced_[first + i][at->state].state);
        if (i > 0) at = &labels[i - 1][at->before];
      }
      std::ranges::reverse(chain.states);
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

/// The seconds of layers [first, last) in this state; infinite if they do not fit the memory.
/// Returns nullopt if the budget is spent.
std::optional<double> StateSearch::seconds_by_slices(std::size_t first, std::size_t last,
                                                     const SplitState& state, StageForms& forms,
                                                     SearchBudget& budget) {
  const std::array key{first, last, state.ways};
  if (const auto known = by_slices_.find(key); known != by_slices_.end()) return known->second;
  const SplitGroup& group = groups_.front();
  const std::size_t costs = steps_of_cost * group.size();
  if (!budget.take((steps_of_form + (limited_.empty() ? 0 : costs)) * (last - first))) return {};
  if (!limited_.empty()) {
    std::vector<double> bytes(question_->site.peers.size());
    add_memory(first, std::vector<SplitState>(last - first, state), bytes);
    if (!fits(of_limited(bytes))) {
      return by_slices_[key] = std::numeric_limits<double>::infinity();
    }
  }
  double seconds = 0;
  for (const std::size_t form : forms.in(first, last)) {
    auto cost = slice_seconds_.find({form, state.ways});
    if (cost == slice_seconds_.end()) {
      if (!budget.take(2 * costs)) return {};
      const double own =
          layer_cost(forms[form], state, group, batch_, question_->site.rounds).seconds();
      cost = slice_seconds_.emplace(std::pair(form, state.ways), own).first;
    }
    seconds += cost->second;
  }
  return by_slices_[key] = seconds;
}

std::vector<std::vector<StateChain>> StateSearch::chains_by_slices(std::size_t first,
                                                                   std::size_t most,
                                                                   StageForms& forms,
                                                                   SearchBudget& budget) {
  std::vector<std::vector<StateChain>> chains(question_->layers.size() - first);
  for (std::size_t last = first + 1; last <= question_->layers.size(); ++last) {
    if (!budget.take(last - first)) return chains;
    const std::optional<SplitState> state = state_by_slices(first, last, most);
    if (!state) continue;
    const std::optional<double> seconds = seconds_by_slices(first, last, *state, forms, budget);
    if (!seconds) return chains;
    if (*seconds == std::numeric_limits<double>::infinity()) continue;
    chains[last - first - 1].push_back({*seconds, std::vector<SplitState>(last - first, *state)});
  }
  return chains;
}

std::vector<std::vector<StateChain>> StateSearch::chains_from(std::size_t first,
                                                              const SplitChoice& choice,
                                                              SearchBudget& budget) {
  const std::vector<SplitLayer>& layers = question_->layers;
  std::vector<std::vector<StateChain>> chains(layers.size() - first);
  if (priced_.empty()) price_layers(choice, budget);
  if (budget.is_spent()) return chains;
  std::optional<std::size_t> tied;
  for (std::size_t layer = first; layer < layers.size(); ++layer) {
    if (layers[layer].tied_to && *layers[layer].tied_to >= first) tied = layer;
  }
  // For each layer, all its states, or only those on the group `only`.
  const auto states_on = [&](std::optional<std::size_t> only) {
    States states;
    for (std::size_t layer = first; layer < layers.size(); ++layer) {
      std::vector<std::size_t>& own = states.emplace_back();
      for (std::size_t i = 0; i < priced_[layer].size(); ++i) {
        if (!only || priced_[layer][i].state.group == *only) own.push_back(i);
      }
    }
    return states;
  };
  const auto append = [&](const States& states) {
    if (!tied) return append_chains(first, states, budget, chains);
    // Two layers that share a table must have the same state, so each state of the first is tried
    // for both.
    const std::size_t anchor = *layers[*tied].tied_to;
    for (const std::size_t i : states[anchor - first]) {
      for (const std::size_t j : states[*tied - first]) {
        if (!(priced_[anchor][i].state == priced_[*tied][j].state)) continue;
        States fixed = states;
        fixed[anchor - first] = {i};
        fixed[*tied - first] = {j};
        append_chains(first, fixed, budget, chains);
      }
    }
  };
  if (!choice.one_group) append(states_on(std::nullopt));
  for (std::size_t g = 0; choice.one_group && g < groups_.size(); ++g) append(states_on(g));
  return chains;
}

}  // namespace gv
