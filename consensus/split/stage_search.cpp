// Combines the best states of possible stages into plans, by dynamic programming.
#include "consensus/split/stage_search.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace gv {
namespace {

/// The measured cost of each operation, in steps of SearchBudget.
constexpr std::uint64_t steps_of_attempt = 5;
constexpr std::uint64_t steps_of_partial = 20;

/// With up to this many peers, the search tries every order of the peers.
constexpr std::size_t every_order_max = 4;

/// The same order, except that the pinned peers, in the places that they occupy, are sorted by
/// their pins.
std::vector<std::size_t> with_sorted_pins(std::vector<std::size_t> order,
                                          std::vector<SplitPin> pins) {
  const auto is_pinned = [&](std::size_t peer) {
    return std::ranges::find(pins, peer, &SplitPin::peer) != pins.end();
  };
  std::ranges::stable_sort(pins, {}, [&](const SplitPin& pin) {
    return std::pair(pin.at, std::ranges::find(order, pin.peer) - order.begin());
  });
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (is_pinned(order[i])) places.push_back(i);
  }
  for (std::size_t i = 0; i < places.size(); ++i) order[places[i]] = pins[i].peer;
  return order;
}

/// The order with pinned peers first, sorted by their pins, and the others after them. However, one
/// of the others comes early for each stage (or layer, if pins name layers) that has no pin and
/// precedes a pinned one.
std::vector<std::size_t> with_early_pins(const std::vector<std::size_t>& order,
                                         const std::vector<SplitPin>& pins) {
  std::vector<std::size_t> free;
  for (const std::size_t peer : order) {
    if (std::ranges::find(pins, peer, &SplitPin::peer) == pins.end()) free.push_back(peer);
  }
  std::vector<std::size_t> early;
  auto next = free.begin();
  const std::size_t last = std::ranges::max(pins, {}, &SplitPin::at).at;
  for (std::size_t stage = 0; stage <= last; ++stage) {
    const std::size_t before = early.size();
    for (const SplitPin& pin : pins) {
      if (pin.at == stage) early.push_back(pin.peer);
    }
    if (early.size() == before && next != free.end()) early.push_back(*next++);
  }
  early.insert(early.end(), next, free.end());
  return early;
}

}  // namespace

StateSearch& SliceSearches::of(const std::vector<std::size_t>& peers, const SplitBatch& batch) {
  const std::tuple key{batch.micro_batches, batch.in_flight, peers};
  const auto known = searches_.find(key);
  if (known != searches_.end()) return known->second;
  std::vector<SplitGroup> groups{group_of(question_.site, peers)};
  return searches_.try_emplace(key, question_, std::move(groups), batch).first->second;
}

StageSegments::Of& StageSegments::of(std::vector<std::size_t> peers) {
  std::ranges::sort(peers);
  Of& of = made_[peers];
  if (of.search != nullptr) return of;
  const SplitBatch batch{question_.samples, micro_batches_,
                         std::min(choice_.stages_max, micro_batches_)};
  if (choice_.group > 0) {
    of.search = &slices_.of(peers, batch);
    return of;
  }
  std::vector<SplitGroup> groups = candidate_groups(question_.site, peers);
  for (const SplitPin& pin : question_.pins) {
    if (!std::ranges::binary_search(peers, pin.peer)) continue;
    std::erase_if(groups, [&](const SplitGroup& group) {
      return std::ranges::find(group.peers, pin.peer) == group.peers.end();
    });
  }
  of.search = &of.own.emplace(question_, std::move(groups), batch);
  return of;
}

const std::vector<std::vector<StateChain>>& StageSegments::chains(Of& of, std::size_t first,
                                                                  SearchBudget& budget) {
  const auto [entry, is_new] = of.chains.try_emplace(first);
  if (is_new) {
    entry->second = choice_.group > 0
                        ? of.search->chains_by_slices(first, choice_.group, slices_.forms(), budget)
                        : of.search->chains_from(first, choice_, budget);
  }
  return entry->second;
}

StageSearch::StageSearch(StageSegments& segments, std::vector<std::size_t> order, bool by_stages,
                         SearchBudget& budget)
    : segments_(segments),
      question_(segments.question()),
      choice_(segments.choice()),
      order_(std::move(order)),
      micro_batches_(segments.micro_batches()),
      compares_equal_counts_(by_stages || (!question_.pins.empty() && !question_.pins_name_layers)),
      budget_(budget),
      at_(question_.layers.size() + 1) {
  const auto first = order_.begin();
  for (std::size_t begin = 0; begin < order_.size(); ++begin) {
    run_from_.push_back(runs_.size());
    for (std::size_t end = begin + 1; end <= order_.size(); ++end) {
      runs_.push_back({begin, end,
                       &segments.of({first + static_cast<std::ptrdiff_t>(begin),
                                     first + static_cast<std::ptrdiff_t>(end)})});
    }
  }
  run_from_.push_back(runs_.size());
  links_.resize(runs_.size() * runs_.size());
  for (Partials& partials : at_) partials.resize(runs_.size());
}

std::vector<const StageSearch::Partial*> StageSearch::find() {
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    if (!choice_.all_peers || runs_[run].begin == 0) add(nullptr, 0, 0, run);
  }
  for (std::size_t first = 1; first < question_.layers.size() && !budget_.is_spent(); ++first) {
    if (!question_.layers[first].may_begin_stage) continue;
    for (std::size_t before_run = 0; before_run < runs_.size(); ++before_run) {
      const std::size_t end = runs_[before_run].end;
      for (const Partial* before : at_[first][before_run]) {
        if (before->stages == choice_.stages_max) continue;
        const std::size_t past =
            choice_.all_peers && end < order_.size() ? run_from_[end + 1] : runs_.size();
        for (std::size_t run = run_from_[end]; run < past; ++run) {
          add(before, before_run, first, run);
        }
      }
    }
  }
  std::vector<const Partial*> plans;
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    for (const Partial* plan : at_.back()[run]) {
      if (is_complete(*plan, runs_[run])) plans.push_back(plan);
    }
  }
  return plans;
}

bool StageSearch::is_complete(const Partial& plan, const Run& last) const {
  if (choice_.all_peers && last.end < order_.size()) return false;
  const std::size_t least = choice_.group > 0 ? 1 : 2;
  if (plan.stages < std::max(choice_.stages_min, least)) return false;
  const bool lacks_stage =
      !question_.pins_name_layers && std::ranges::any_of(question_.pins, [&](const SplitPin& pin) {
        return pin.at >= plan.stages;
      });
  return !lacks_stage && (choice_.group <= 1 || plan.has_groups);
}

std::vector<ChosenStage> StageSearch::stages_of(const Partial& plan) {
  std::vector<ChosenStage> stages;
  for (const Partial* at = &plan; at != nullptr; at = at->before) stages.push_back(at->last);
  std::ranges::reverse(stages);
  return stages;
}

/// Appends to `before` each possible stage on this run that begins at layer `first`. If `before` is
/// null, each of these stages begins a plan.
void StageSearch::add(const Partial* before, std::size_t before_run, std::size_t first,
                      std::size_t run) {
  const Run& own = runs_[run];
  const auto& chains = segments_.chains(*own.segments, first, budget_);
  const auto count = static_cast<double>(micro_batches_);
  const double bytes =
      static_cast<double>(question_.samples) * question_.layers[first].inputs * sizeof(float);
  for (std::size_t i = 0; i < chains.size(); ++i) {
    const std::size_t last = first + i + 1;
    if (last < question_.layers.size() && !question_.layers[last].may_begin_stage) continue;
    if (!keeps_pins(before == nullptr ? 0 : before->stages, first, last, own)) continue;
    for (const StateChain& chain : chains[i]) {
      if (!budget_.take(steps_of_attempt)) return;
      Partial longer = before == nullptr ? Partial{.stages = 0} : *before;
      longer.before = before;
      longer.last = {.first = first,
                     .search = own.segments->search,
                     .chain = &chain,
                     .link = {},
                     .peers = own.end - own.begin,
                     .members = choice_.group > 0 ? chain.states.front().ways : 1};
      if (before != nullptr) {
        connect(longer.last, before_run, run, before->last.members);
        const double transfer = longer.last.transfer_s(bytes / count);
        longer.fill += 2 * transfer;
        longer.pace = std::max(longer.pace, transfer);
      }
      longer.fill += chain.seconds / count;
      longer.pace = std::max(longer.pace, chain.seconds / count);
      longer.has_groups = longer.has_groups || longer.last.members > 1;
      ++longer.stages;
      keep(at_[last][run], longer);
    }
  }
}

/// True if this run contains all peers that are pinned to this stage, and no peer that is pinned to
/// another. The stage has layers [first, last).
bool StageSearch::keeps_pins(std::size_t stage, std::size_t first, std::size_t last,
                             const Run& run) const {
  return std::ranges::all_of(question_.pins, [&](const SplitPin& pin) {
    const auto peer = std::ranges::find(order_, pin.peer) - order_.begin();
    const auto place = static_cast<std::size_t>(peer);
    const bool is_here = run.begin <= place && place < run.end;
    const bool belongs_here =
        question_.pins_name_layers ? first <= pin.at && pin.at < last : pin.at == stage;
    return is_here == belongs_here;
  });
}

/// Sets the link to `stage`, which is on `run`, from the stage before it. Stages with r and r'
/// blocks use min(r, r') links at once, each as slow as the slowest. All `members` of a block of
/// the stage before have the outputs, and each sends them to its part of the receivers.
void StageSearch::connect(ChosenStage& stage, std::size_t before_run, std::size_t run,
                          std::size_t members) {
  const Run& a = runs_[before_run];
  const Run& b = runs_[run];
  stage.links = std::min((a.end - a.begin) / members, (b.end - b.begin) / stage.members);
  const auto [few, many] = std::minmax(members, stage.members);
  stage.copies = (many + few - 1) / few;
  stage.link = worst_link(before_run, run);
}

const SplitLink& StageSearch::worst_link(std::size_t a, std::size_t b) {
  std::optional<SplitLink>& worst = links_[a * runs_.size() + b];
  if (worst) return *worst;
  worst.emplace();
  for (std::size_t i = runs_[a].begin; i < runs_[a].end; ++i) {
    for (std::size_t j = runs_[b].begin; j < runs_[b].end; ++j) {
      worst->worsen(question_.site.links[order_[i]][order_[j]]);
    }
  }
  return *worst;
}

/// Adds the candidate unless two other plans are at least as good, with no larger `pace`, `fill` or
/// number of stages. A step of m micro-batches takes fill + (m - 1) pace, which grows with both. If
/// the best plans of each number of stages are wanted, only plans with equal numbers of stages are
/// compared. The same holds if pins name stages by number, because then the next stages of such
/// plans have the same number, and hence the same pins.
void StageSearch::keep(std::vector<const Partial*>& partials, const Partial& candidate) {
  const auto beats = [&](const Partial& a, const Partial& b) {
    const bool is_comparable = compares_equal_counts_ ? a.stages == b.stages : a.stages <= b.stages;
    return a.pace <= b.pace && a.fill <= b.fill && is_comparable && a.has_groups >= b.has_groups &&
           a.last.members == b.last.members;
  };
  budget_.take(partials.size());
  std::size_t better = 0;
  for (std::size_t i = 0; i < partials.size() && better < 2; ++i) {
    better += beats(*partials[i], candidate);
  }
  if (better == 2 || !budget_.take(steps_of_partial)) return;
  const Partial* added = &made_.emplace_back(candidate);
  const auto is_worse = [&](const Partial* one, const Partial* other) {
    return other != one && beats(*other, *one) && !beats(*one, *other);
  };
  partials.push_back(added);
  // Only plans that the new one beats may now be beaten by two.
  std::vector<const Partial*> beaten;
  for (const Partial* one : partials) {
    if (!is_worse(one, added)) continue;
    const auto by =
        std::ranges::count_if(partials, [&](const Partial* other) { return is_worse(one, other); });
    if (by >= 2) beaten.push_back(one);
  }
  if (beaten.empty()) return;
  std::erase_if(partials,
                [&](const Partial* one) { return std::ranges::find(beaten, one) != beaten.end(); });
}

std::vector<std::vector<std::size_t>> orders_of(const SplitSite& site,
                                                const std::vector<SplitPin>& pins) {
  std::vector<std::size_t> peers(site.peers.size());
  std::iota(peers.begin(), peers.end(), std::size_t{0});
  std::vector<std::vector<std::size_t>> orders;
  if (peers.size() <= every_order_max) {
    do {
      orders.push_back(peers);
    } while (std::ranges::next_permutation(peers).found);
    return orders;
  }
  std::vector<std::size_t>& by_cluster = orders.emplace_back();
  for (const auto& cluster : clusters_of(site, peers)) {
    by_cluster.insert(by_cluster.end(), cluster.begin(), cluster.end());
  }
  std::vector<std::size_t> by_speed = group_of(site, peers).peers;
  if (by_speed != by_cluster) orders.push_back(std::move(by_speed));
  if (pins.empty()) return orders;
  std::vector<std::vector<std::size_t>> pinned;
  for (const std::vector<std::size_t>& order : orders) {
    pinned.push_back(with_sorted_pins(order, pins));
    pinned.push_back(with_early_pins(order, pins));
  }
  return pinned;
}

}  // namespace gv
