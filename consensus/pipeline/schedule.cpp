// Orders instructions by list scheduling, and adapts the lists to each kind of schedule.
#include "consensus/pipeline/schedule.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.hpp"

namespace gv {
namespace {

using Action = PipelineAction;
using List = std::vector<PipelineInstruction>;

/// The passes that a worker may do next. In each set, smaller entries go first.
struct Work {
  std::set<std::pair<std::uint32_t, std::uint32_t>> backward;  ///< (micro-batch, stage)
  /// (micro-batch, number of stages from the pass's stage to the last)
  std::set<std::pair<std::uint32_t, std::uint32_t>> forward;
  std::vector<std::size_t> in_flight;  ///< Number of micro-batches in flight at each stage.
  std::size_t forwards_left = 0;
};

/// Schedules forward and backward passes in slots of equal length; a transfer between workers takes
/// `transfer` slots. Each worker keeps the activations of at most `in_flight_max[stage]`
/// micro-batches for a stage. The schedule never gets stuck: the last stage can always take its
/// micro-batches backward, which makes room for the stage before it, and so on.
class SlotSchedule {
 public:
  SlotSchedule(const Routes& routes, std::size_t workers, bool forwards_first,
               std::vector<std::size_t> in_flight_max, std::size_t transfer)
      : routes_(routes),
        stages_(static_cast<std::uint32_t>(routes.front().size())),
        forwards_first_(forwards_first),
        in_flight_max_(std::move(in_flight_max)),
        transfer_(transfer),
        work_(workers),
        lists_(workers) {
    for (Work& work : work_) work.in_flight.assign(stages_, 0);
    for (std::uint32_t b = 0; b < routes.size(); ++b) {
      for (const std::uint32_t worker : routes[b]) ++work_[worker].forwards_left;
      coming_[0].push_back({Action::forward, 0, b});
    }
  }

  std::vector<List> lists() {
    for (std::size_t left = 2 * routes_.size() * stages_; left > 0; ++slot_) {
      arrive();
      List slot;
      for (std::size_t worker = 0; worker < work_.size(); ++worker) {
        const std::optional<PipelineInstruction> next = choose(work_[worker]);
        if (!next) continue;
        lists_[worker].push_back(*next);
        slot.push_back(*next);
      }
      check(!slot.empty() || !coming_.empty(), "a pipeline always has something to do");
      left -= slot.size();
      for (const PipelineInstruction& done : slot) complete(done);
    }
    return std::move(lists_);
  }

 private:
  std::optional<PipelineInstruction> choose(Work& work) const {
    const bool may_go_back = !forwards_first_ || work.forwards_left == 0;
    if (may_go_back && !work.backward.empty()) {
      const auto [micro_batch, stage] = *work.backward.begin();
      work.backward.erase(work.backward.begin());
      return PipelineInstruction{Action::backward, stage, micro_batch};
    }
    const auto next = std::ranges::find_if(work.forward, [&](const auto& candidate) {
      const std::uint32_t stage = stages_ - candidate.second;
      return work.in_flight[stage] < in_flight_max_[stage];
    });
    if (next == work.forward.end()) return std::nullopt;
    const PipelineInstruction operation{Action::forward, stages_ - next->second, next->first};
    work.forward.erase(next);
    --work.forwards_left;
    ++work.in_flight[operation.stage];
    return operation;
  }

  Work& work_of(const PipelineInstruction& operation) {
    return work_[routes_[operation.micro_batch][operation.stage]];
  }

  /// Gives each worker the passes that can begin from this slot on.
  void arrive() {
    for (const PipelineInstruction& next : coming_[slot_]) {
      if (next.action == Action::forward) {
        work_of(next).forward.insert({next.micro_batch, stages_ - next.stage});
      } else {
        work_of(next).backward.insert({next.micro_batch, next.stage});
      }
    }
    coming_.erase(slot_);
  }

  void complete(const PipelineInstruction& done) {
    PipelineInstruction next = done;
    if (done.action == Action::backward) {
      --work_of(done).in_flight[done.stage];
      if (done.stage == 0) return;
      --next.stage;
    } else if (done.stage + 1 == stages_) {
      next.action = Action::backward;
    } else {
      ++next.stage;
    }
    const std::size_t way = &work_of(next) == &work_of(done) ? 0 : transfer_;
    coming_[slot_ + 1 + way].push_back(next);
  }

  const Routes& routes_;
  std::uint32_t stages_;
  bool forwards_first_;
  std::vector<std::size_t> in_flight_max_;
  std::size_t transfer_;
  std::size_t slot_ = 0;
  /// Future passes, by the first slot in which they can begin.
  std::map<std::size_t, List> coming_;
  std::vector<Work> work_;
  std::vector<List> lists_;
};

/// Splits each backward pass in two. At stage s, the part for the weights comes only after s more
/// parts for the inputs, because no other worker waits for it (Qi 2023, ZB-H1).
List with_weights_postponed(const List& list) {
  List split;
  List waiting;
  for (PipelineInstruction operation : list) {
    if (operation.action != Action::backward) {
      split.push_back(operation);
      continue;
    }
    operation.action = Action::backward_input;
    split.push_back(operation);
    operation.action = Action::backward_weight;
    waiting.push_back(operation);
    const auto due = std::ranges::find_if(waiting, [&](const PipelineInstruction& weight) {
      const auto later = std::ranges::count(waiting, weight.stage, &PipelineInstruction::stage);
      return static_cast<std::uint32_t>(later) > weight.stage;
    });
    if (due == waiting.end()) continue;
    split.push_back(*due);
    waiting.erase(due);
  }
  split.insert(split.end(), waiting.begin(), waiting.end());
  return split;
}

/// Appends an update of each stage to the list.
void update_at_the_end(List& list) {
  std::set<std::uint32_t> stages;
  for (const PipelineInstruction& operation : list) stages.insert(operation.stage);
  for (const std::uint32_t stage : stages) list.push_back({Action::update, stage});
}

/// Adds an update after every `accumulate` backward passes, and after the last one. With `newest`
/// (PipeDream), a micro-batch goes forward with the newest parameters and backward with the same
/// ones. Otherwise (2BW), both passes use parameters that are one update older, so that two
/// versions are enough.
List with_updates(const List& list, bool newest, std::size_t accumulate) {
  struct Stage {
    /// Versions used by the micro-batches that are under way.
    std::map<std::uint32_t, std::uint32_t> versions;
    std::uint32_t updates = 0;
    std::size_t forwards = 0;
    std::size_t backwards = 0;
    std::size_t all = 0;  ///< Number of micro-batches.
  };
  std::map<std::uint32_t, Stage> stages;
  for (const PipelineInstruction& operation : list) {
    stages[operation.stage].all += operation.action == Action::forward;
  }
  List updated;
  for (PipelineInstruction operation : list) {
    Stage& stage = stages[operation.stage];
    if (operation.action == Action::forward) {
      const auto group = static_cast<std::uint32_t>(stage.forwards++ / accumulate);
      operation.version = newest ? stage.updates : std::max(group, 1u) - 1;
      stage.versions[operation.micro_batch] = operation.version;
    } else {
      operation.version = stage.versions[operation.micro_batch];
    }
    updated.push_back(operation);
    const bool is_due = operation.action == Action::backward &&
                        (++stage.backwards % accumulate == 0 || stage.backwards == stage.all);
    if (!is_due) continue;
    updated.push_back({Action::update, operation.stage, stage.updates, stage.updates});
    ++stage.updates;
  }
  return updated;
}

/// True if every worker belongs to the same chain for all micro-batches.
bool are_fixed_chains(const Routes& routes, std::size_t workers) {
  std::vector<const std::vector<std::uint32_t>*> chain_of(workers, nullptr);
  for (const auto& route : routes) {
    for (const std::uint32_t worker : route) {
      if (chain_of[worker] == nullptr) chain_of[worker] = &route;
      if (*chain_of[worker] != route) return false;
    }
  }
  return true;
}

}  // namespace

double part_of_stage(PipelineAction action) {
  switch (action) {
    case Action::forward:
    case Action::backward_input:
    case Action::backward_weight:
      return 1.0 / 3;
    case Action::backward:
      return 2.0 / 3;
    case Action::update:
      return 0;
  }
  return 0;
}

std::string to_string(const PipelineInstruction& operation, bool with_stage) {
  const std::string_view letters = operation.tests ? "TA" : "FBIWU";
  std::string text(1, letters[static_cast<std::size_t>(operation.action)]);
  text += std::to_string(operation.micro_batch);
  if (with_stage) text += "." + std::to_string(operation.stage);
  return text;
}

std::size_t in_flight_max(PipelineKind kind, std::size_t stages, std::size_t stage,
                          std::size_t micro_batches, std::size_t accumulate, std::size_t ahead) {
  if (kind == PipelineKind::gpipe) return micro_batches;
  const std::size_t most = kind == PipelineKind::zero_bubble ? stages : stages - stage;
  const std::size_t more = can_go_ahead(kind) ? ahead * (stages - 1 - stage) : 0;
  const std::size_t enough =
      kind == PipelineKind::two_bw ? std::min(accumulate, micro_batches) : micro_batches;
  return std::min(most + more, enough);
}

std::size_t versions_max(PipelineKind kind, std::size_t stages, std::size_t stage) {
  if (kind == PipelineKind::two_bw) return 2;
  return kind == PipelineKind::pipedream ? stages - stage : 1;
}

Routes straight_routes(std::size_t stages, std::size_t micro_batches) {
  std::vector<std::uint32_t> chain(stages);
  for (std::uint32_t s = 0; s < stages; ++s) chain[s] = s;
  return Routes(micro_batches, chain);
}

Problems problems(PipelineKind kind, const Routes& routes, std::size_t workers,
                  std::size_t accumulate) {
  Problems found;
  const std::string place(to_string(kind));
  if (routes.empty() || routes.front().empty()) {
    found.push_back({place, "there is nothing to do", "use at least one stage and micro-batch"});
    return found;
  }
  const std::size_t stages = routes.front().size();
  if (kind == PipelineKind::chimera && stages % 2 != 0) {
    found.push_back({place, "chains in both directions need an even number of stages",
                     "use " + std::to_string(stages + 1) + " stages, or 1f1b"});
  }
  if (!is_synchronous(kind) && !are_fixed_chains(routes, workers)) {
    found.push_back({place, "its parameters have versions, which only fixed chains agree on",
                     "use the fixed router, or 1f1b"});
  }
  if (kind == PipelineKind::two_bw && accumulate < stages) {
    found.push_back({place,
                     "two versions are enough only with as many micro-batches an update as stages",
                     "accumulate at least " + std::to_string(stages)});
  }
  return found;
}

PipelineSchedule make_schedule(PipelineKind kind, const Routes& routes, std::size_t workers,
                               std::size_t accumulate, std::size_t ahead) {
  check(problems(kind, routes, workers, accumulate).empty(), "a schedule is made of sound routes");
  const std::size_t stages = routes.front().size();
  PipelineSchedule schedule{.stages = stages, .micro_batches = routes.size()};
  if (!can_go_ahead(kind)) ahead = 0;
  const bool forwards_first = kind == PipelineKind::gpipe;
  // Zero-bubble orders its passes like 1F1B.
  const PipelineKind order = kind == PipelineKind::zero_bubble ? PipelineKind::one_f_one_b : kind;
  std::vector<std::size_t> most(stages);
  for (std::size_t s = 0; s < stages; ++s) {
    most[s] = in_flight_max(order, stages, s, routes.size(), accumulate, ahead);
  }
  schedule.workers = SlotSchedule(routes, workers, forwards_first, std::move(most), ahead).lists();
  if (kind == PipelineKind::pipedream) schedule.accumulate = 1;
  if (kind == PipelineKind::two_bw) schedule.accumulate = accumulate;
  for (List& list : schedule.workers) {
    if (kind == PipelineKind::zero_bubble) list = with_weights_postponed(list);
    if (is_synchronous(kind)) {
      update_at_the_end(list);
    } else {
      list = with_updates(list, kind == PipelineKind::pipedream, schedule.accumulate);
    }
  }
  return schedule;
}

std::vector<PipelineInstruction> test_instructions(const Routes& routes, std::uint32_t worker,
                                                   std::uint32_t first, std::size_t window) {
  List list;
  const auto stages = static_cast<std::uint32_t>(routes.front().size());
  const auto add = [&](Action action, std::size_t b, std::uint32_t stage) {
    if (routes[b][stage] != worker) return;
    list.push_back({.action = action,
                    .stage = stage,
                    .micro_batch = first + static_cast<std::uint32_t>(b),
                    .tests = true});
  };
  for (std::size_t b = 0; b < routes.size(); ++b) {
    for (std::uint32_t s = stages; b >= window && s-- > 0;) add(Action::backward, b - window, s);
    for (std::uint32_t s = 0; s < stages; ++s) add(Action::forward, b, s);
  }
  return list;
}

}  // namespace gv
