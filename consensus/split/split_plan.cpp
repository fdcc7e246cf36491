// Combines the best states of layers into plans with one or more stages.
#include "consensus/split/split_plan.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "base/check.hpp"
#include "consensus/split/state_search.hpp"

namespace gv {
namespace {

/// Peers [begin, end) in an order of peers.
struct Run {
  std::size_t begin = 0;
  std::size_t end = 0;

  friend auto operator<=>(const Run&, const Run&) = default;
};

/// A stage of a partial plan.
struct ChosenStage {
  std::size_t first = 0;
  const StateSearch* search = nullptr;
  const StateChain* chain = nullptr;
  SplitLink link;         ///< The link to the stage before. Unused in the first stage.
  std::size_t links = 1;  ///< Number of links to the previous stage that work at the same time.
  /// Copies of a micro-batch that a peer of the previous stage sends one after the other.
  std::size_t copies = 1;
  std::size_t peers = 1;
  std::size_t members = 1;  ///< Number of peers in a block, all of which receive the inputs.

  /// Seconds until `bytes` of a micro-batch have arrived from the stage before.
  double transfer_s(double bytes) const {
    return link.seconds(bytes * static_cast<double>(copies) / static_cast<double>(links));
  }
};

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

std::vector<SplitPlan> plans_without_stages(const SplitQuestion& question,
                                            const SplitChoice& choice) {
  std::vector<std::size_t> peers(question.site.peers.size());
  std::iota(peers.begin(), peers.end(), std::size_t{0});
  const StateSearch search(
      question, question.groups.empty() ? candidate_groups(question.site, peers) : question.groups,
      {.samples = question.samples});
  std::vector<SplitPlan> best;
  const std::vector<std::vector<StateChain>> chains = search.chains_from(0, choice);
  for (const StateChain& chain : chains.back()) {
    keep_plan(best, assembled(question, {{.search = &search, .chain = &chain}}, 1));
  }
  return best;
}

/// A search for stages on one set of peers, and the chains that it found, by their first layer.
struct Segments {
  std::unique_ptr<StateSearch> search;
  std::map<std::size_t, std::vector<std::vector<StateChain>>> chains;
};

/// The Segments of every set of peers, each computed when it is first needed.
class AllSegments {
 public:
  AllSegments(const SplitQuestion& question, const SplitChoice& choice, std::size_t micro_batches)
      : question_(question), choice_(choice), micro_batches_(micro_batches) {}

  const Segments& of(std::vector<std::size_t> peers) {
    std::ranges::sort(peers);
    Segments& segments = made_[peers];
    if (segments.search != nullptr) return segments;
    std::vector<SplitGroup> groups;
    if (choice_.group > 0) {
      groups.push_back(group_of(question_.site, std::move(peers)));
    } else {
      groups = candidate_groups(question_.site, peers);
      for (const SplitPin& pin : question_.pins) {
        if (!std::ranges::binary_search(peers, pin.peer)) continue;
        std::erase_if(groups, [&](const SplitGroup& group) {
          return std::ranges::find(group.peers, pin.peer) == group.peers.end();
        });
      }
    }
    const std::size_t in_flight = std::min(choice_.stages_max, micro_batches_);
    segments.search = std::make_unique<StateSearch>(
        question_, std::move(groups), SplitBatch{question_.samples, micro_batches_, in_flight});
    for (std::size_t first = 0; first < question_.layers.size(); ++first) {
      if (!question_.layers[first].may_begin_stage) continue;
      segments.chains[first] = segments.search->chains_from(first, choice_);
    }
    return segments;
  }

  const SplitQuestion& question() const { return question_; }
  const SplitChoice& choice() const { return choice_; }
  std::size_t micro_batches() const { return micro_batches_; }

 private:
  const SplitQuestion& question_;
  const SplitChoice& choice_;
  std::size_t micro_batches_;
  std::map<std::vector<std::size_t>, Segments> made_;  ///< The segments by peers.
};

/// Searches for plans with stages. Peers of a stage follow each other in the given order.
class StageSearch {
 public:
  StageSearch(AllSegments& segments, std::vector<std::size_t> order)
      : question_(segments.question()),
        choice_(segments.choice()),
        order_(std::move(order)),
        micro_batches_(segments.micro_batches()) {
    for (std::size_t begin = 0; begin < order_.size(); ++begin) {
      for (std::size_t end = begin + 1; end <= order_.size(); ++end) {
        const auto first = order_.begin();
        runs_[{begin, end}] = &segments.of(
            {first + static_cast<std::ptrdiff_t>(begin), first + static_cast<std::ptrdiff_t>(end)});
      }
    }
  }

  std::vector<SplitPlan> best() const {
    std::vector<std::map<Run, std::vector<Partial>>> at(question_.layers.size() + 1);
    for (const auto& [run, segments] : runs_) {
      if (!choice_.all_peers || run.begin == 0) add(at, nullptr, 0, run, *segments);
    }
    std::vector<SplitPlan> plans;
    for (std::size_t first = 1; first < question_.layers.size(); ++first) {
      if (!question_.layers[first].may_begin_stage) continue;
      for (const auto& [before, partials] : at[first]) {
        for (const Partial& partial : partials) {
          if (partial.stages.size() == choice_.stages_max) continue;
          for (auto next = runs_.lower_bound({before.end, 0}); next != runs_.end(); ++next) {
            if (choice_.all_peers && next->first.begin > before.end) break;
            add(at, &partial, first, next->first, *next->second, before);
          }
        }
      }
    }
    for (const auto& [run, partials] : at.back()) {
      if (choice_.all_peers && run.end < order_.size()) continue;
      for (const Partial& partial : partials) {
        const std::size_t least = choice_.group > 0 ? 1 : 2;
        if (partial.stages.size() < std::max(choice_.stages_min, least)) continue;
        if (lacks_stage(partial.stages.size())) continue;
        if (choice_.group > 1 && !partial.has_groups) continue;
        SplitPlan plan = assembled(question_, partial.stages, micro_batches_);
        plan.group = choice_.group;
        keep_plan(plans, std::move(plan));
      }
    }
    return plans;
  }

 private:
  /// The first stages of a plan.
  struct Partial {
    double pace = 0;  ///< Seconds between two micro-batches.
    double fill = 0;  ///< Seconds that one micro-batch takes through the stages.
    bool has_groups = false;
    std::vector<ChosenStage> stages;
  };
  using Partials = std::vector<std::map<Run, std::vector<Partial>>>;

  /// Appends to `partial` each possible stage on `run` that begins at layer `first`. If `partial`
  /// is null, each of these stages begins a plan.
  void add(Partials& at, const Partial* partial, std::size_t first, const Run& run,
           const Segments& segments, const Run& before = {}) const {
    const auto& chains = segments.chains.at(first);
    for (std::size_t i = 0; i < chains.size(); ++i) {
      const std::size_t last = first + i + 1;
      if (last < question_.layers.size() && !question_.layers[last].may_begin_stage) continue;
      if (!keeps_pins(partial == nullptr ? 0 : partial->stages.size(), first, last, run)) continue;
      for (const StateChain& chain : chains[i]) {
        Partial longer = partial == nullptr ? Partial{} : *partial;
        ChosenStage stage{.first = first,
                          .search = segments.search.get(),
                          .chain = &chain,
                          .peers = run.end - run.begin};
        if (choice_.group > 0) stage.members = chain.states.front().ways;
        const auto count = static_cast<double>(micro_batches_);
        if (partial != nullptr) {
          link(stage, before, run, partial->stages.back().members);
          const double bytes = static_cast<double>(question_.samples) *
                               question_.layers[first].inputs * sizeof(float);
          const double transfer = stage.transfer_s(bytes / count);
          longer.fill += 2 * transfer;
          longer.pace = std::max(longer.pace, transfer);
        }
        longer.fill += chain.seconds / count;
        longer.pace = std::max(longer.pace, chain.seconds / count);
        longer.has_groups = longer.has_groups || stage.members > 1;
        longer.stages.push_back(std::move(stage));
        keep(at[last][run], std::move(longer));
      }
    }
  }

  /// True if this run contains all peers that are pinned to this stage, and no peer that is pinned
  /// to another. The stage has layers [first, last).
  bool keeps_pins(std::size_t stage, std::size_t first, std::size_t last, const Run& run) const {
    return std::ranges::all_of(question_.pins, [&](const SplitPin& pin) {
      const auto peer = std::ranges::find(order_, pin.peer) - order_.begin();
      const auto place = static_cast<std::size_t>(peer);
      const bool is_here = run.begin <= place && place < run.end;
      const bool belongs_here =
          question_.pins_name_layers ? first <= pin.at && pin.at < last : pin.at == stage;
      return is_here == belongs_here;
    });
  }

  /// True if some peer is pinned to a stage that a plan with this number of stages does not have.
  bool lacks_stage(std::size_t stages) const {
    return !question_.pins_name_layers &&
           std::ranges::any_of(question_.pins,
                               [&](const SplitPin& pin) { return pin.at >= stages; });
  }

  /// Sets the link from the stage on run `a` to `stage`, which is on run `b`. Stages with r and r'
  /// blocks use min(r, r') links at once, each as slow as the slowest. All `members` of a block of
  /// `a` have the outputs, and each sends them to its part of the receivers.
  void link(ChosenStage& stage, const Run& a, const Run& b, std::size_t members) const {
    stage.links = std::min((a.end - a.begin) / members, (b.end - b.begin) / stage.members);
    const auto [few, many] = std::minmax(members, stage.members);
    stage.copies = (many + few - 1) / few;
    for (std::size_t i = a.begin; i < a.end; ++i) {
      for (std::size_t j = b.begin; j < b.end; ++j) {
        const SplitLink& between = question_.site.links[order_[i]][order_[j]];
        SplitLink& worst = stage.link;
        worst.latency_s = std::max(worst.latency_s, between.latency_s);
        const bool is_slower = worst.bytes_per_s == 0 || between.bytes_per_s < worst.bytes_per_s;
        if (between.bytes_per_s > 0 && is_slower) worst.bytes_per_s = between.bytes_per_s;
      }
    }
  }

  /// Adds the candidate unless two other plans are at least as good, with no larger `pace`, `fill`
  /// or number of stages. A step of m micro-batches takes fill + (m - 1) pace, which grows with
  /// both. If pins name stages by number, only plans with equal numbers of stages are compared,
  /// because their next stages have the same number, and hence the same pins.
  void keep(std::vector<Partial>& partials, Partial candidate) const {
    const bool counts_stages = !question_.pins.empty() && !question_.pins_name_layers;
    const auto beats = [&](const Partial& a, const Partial& b) {
      const bool is_comparable =
          counts_stages ? a.stages.size() == b.stages.size() : a.stages.size() <= b.stages.size();
      return a.pace <= b.pace && a.fill <= b.fill && is_comparable &&
             a.has_groups >= b.has_groups && a.stages.back().members == b.stages.back().members;
    };
    const auto worse = std::ranges::count_if(
        partials, [&](const Partial& other) { return beats(other, candidate); });
    if (worse >= 2) return;
    partials.push_back(std::move(candidate));
    const std::vector<Partial>& all = partials;
    std::vector<bool> beaten;
    for (const Partial& one : all) {
      const auto better = std::ranges::count_if(all, [&](const Partial& other) {
        return &other != &one && beats(other, one) && !beats(one, other);
      });
      beaten.push_back(better >= 2);
    }
    std::size_t i = 0;
    std::erase_if(partials, [&](const Partial&) { return beaten[i++]; });
  }

  const SplitQuestion& question_;
  const SplitChoice& choice_;
  std::vector<std::size_t> order_;
  std::size_t micro_batches_;
  std::map<Run, const Segments*> runs_;
};

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

/// The orders in which peers are given stages. With at most `every_order_max` peers, these are all
/// possible orders. With more peers, they are one order by cluster and one by speed. If there are
/// pins, each of these two is replaced by its with_sorted_pins() and its with_early_pins().
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
  check(!question.layers.empty() && !question.site.peers.empty(), "there is something to share");
  std::vector<SplitPlan> best;
  const bool may_lack_stages = choice.stages_min <= 1 && choice.group == 0;
  if (may_lack_stages && question.pins.empty()) best = plans_without_stages(question, choice);
  if (choice.stages_max < 2 && choice.group == 0) return best;
  const auto orders = orders_of(question.site, question.pins);
  for (const std::size_t micro_batches : question.micro_batches) {
    AllSegments segments(question, choice, micro_batches);
    for (const auto& order : orders) {
      const StageSearch search(segments, order);
      for (SplitPlan& plan : search.best()) keep_plan(best, std::move(plan));
    }
  }
  return best;
}

SplitPlan plan_of(const SplitQuestion& question, std::span<const SplitGroup> groups,
                  std::span<const SplitState> states) {
  check(states.size() == question.layers.size(), "one state for each layer");
  const StateSearch search(question, {groups.begin(), groups.end()}, {.samples = question.samples});
  StateChain chain;
  chain.states.assign(states.begin(), states.end());
  return assembled(question, {{.search = &search, .chain = &chain}}, 1);
}

}  // namespace gv
