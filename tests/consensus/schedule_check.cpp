// Counts the passes in a schedule, and executes the lists of all workers together, ignoring time.
#include "tests/consensus/schedule_check.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace gv {
namespace {

using Action = PipelineAction;

/// People would not read a longer list of problems to its end.
constexpr std::size_t problems_max = 20;

/// A pass, as its micro-batch and its stage.
using Pass = std::pair<std::uint32_t, std::uint32_t>;

/// Progress of a micro-batch in a stage.
struct PassCounts {
  std::size_t forwards = 0;
  std::size_t input_gradients = 0;
  std::size_t weight_gradients = 0;
  std::size_t worker = 0;
  std::uint32_t version = 0;
};

bool gives_input_gradient(Action action) {
  return action == Action::backward || action == Action::backward_input;
}
bool gives_weight_gradient(Action action) {
  return action == Action::backward || action == Action::backward_weight;
}

class Checker {
 public:
  Checker(const PipelineSchedule& schedule, const PipelineLimits& limits)
      : schedule_(schedule), limits_(limits) {}

  Problems problems() {
    count_passes();
    check_updates();
    check_in_flight();
    // If instructions are missing, a run would get stuck for a reason that is already reported.
    if (found_.empty()) run();
    return std::move(found_);
  }

 private:
  void problem(std::string place, std::string reason, std::string remedy = {}) {
    if (found_.size() < problems_max) {
      found_.push_back({std::move(place), std::move(reason), std::move(remedy)});
    }
  }

  static std::string place(std::size_t worker, std::size_t position) {
    return "worker " + std::to_string(worker) + ", operation " + std::to_string(position);
  }

  static std::string name(const Pass& pass) {
    return "micro-batch " + std::to_string(pass.first) + " in stage " + std::to_string(pass.second);
  }

  void count_passes() {
    for (std::size_t w = 0; w < schedule_.workers.size(); ++w) {
      for (std::size_t i = 0; i < schedule_.workers[w].size(); ++i) {
        const PipelineInstruction& operation = schedule_.workers[w][i];
        if (operation.stage >= schedule_.stages) {
          problem(place(w, i), "there is no stage " + std::to_string(operation.stage));
        } else if (operation.action != Action::update) {
          if (operation.micro_batch >= schedule_.micro_batches) {
            problem(place(w, i),
                    "there is no micro-batch " + std::to_string(operation.micro_batch));
          } else {
            count(w, i, operation);
          }
        }
      }
    }
    for (std::uint32_t b = 0; b < schedule_.micro_batches; ++b) {
      for (std::uint32_t s = 0; s < schedule_.stages; ++s) {
        const PassCounts& counts = passes_[{b, s}];
        expect_once({b, s}, counts.forwards, "goes forward");
        expect_once({b, s}, counts.input_gradients, "goes back");
        expect_once({b, s}, counts.weight_gradients, "gives a gradient of the parameters");
      }
    }
  }

  void count(std::size_t worker, std::size_t position, const PipelineInstruction& operation) {
    const Pass pass{operation.micro_batch, operation.stage};
    const auto [entry, is_first] = passes_.try_emplace(pass);
    PassCounts& counts = entry->second;
    if (is_first) {
      counts.worker = worker;
      counts.version = operation.version;
      if (operation.action != Action::forward) {
        problem(place(worker, position), name(pass) + " goes back before it goes forward");
      }
    } else if (counts.worker != worker) {
      problem(place(worker, position),
              name(pass) + " is at two workers, the other is " + std::to_string(counts.worker));
    } else if (counts.version != operation.version) {
      problem(place(worker, position),
              name(pass) + " goes back with other parameters than forward: version " +
                  std::to_string(operation.version) + " and " + std::to_string(counts.version));
    }
    if (operation.action == Action::backward_weight && counts.input_gradients == 0) {
      problem(place(worker, position), name(pass) + " has no gradient yet");
    }
    counts.forwards += operation.action == Action::forward;
    counts.input_gradients += gives_input_gradient(operation.action);
    counts.weight_gradients += gives_weight_gradient(operation.action);
  }

  void expect_once(const Pass& pass, std::size_t times, const char* what) {
    if (times == 1) return;
    problem(name(pass), std::string(what) + " " + std::to_string(times) + " times",
            "it must do so once");
  }

  /// The state of one stage at one worker.
  struct Stage {
    std::size_t gradients = 0;  ///< Number of gradients since the last update.
    std::size_t left = 0;       ///< Number of gradients still to come.
    std::uint32_t updates = 0;
  };

  void check_updates() {
    for (std::size_t w = 0; w < schedule_.workers.size(); ++w) {
      std::map<std::uint32_t, Stage> stages;
      for (const PipelineInstruction& operation : schedule_.workers[w]) {
        stages[operation.stage].left += gives_weight_gradient(operation.action);
      }
      for (std::size_t i = 0; i < schedule_.workers[w].size(); ++i) {
        const PipelineInstruction& operation = schedule_.workers[w][i];
        Stage& stage = stages[operation.stage];
        if (operation.version > stage.updates) {
          problem(place(w, i), "version " + std::to_string(operation.version) +
                                   " of the parameters is not made yet");
        }
        if (operation.action == Action::update) {
          check_update(w, i, operation, stage);
        } else if (gives_weight_gradient(operation.action)) {
          ++stage.gradients;
          --stage.left;
        }
      }
      for (const auto& [number, stage] : stages) {
        if (stage.gradients == 0) continue;
        problem("worker " + std::to_string(w), std::to_string(stage.gradients) +
                                                   " gradients of stage " + std::to_string(number) +
                                                   " are in no update");
      }
    }
  }

  void check_update(std::size_t worker, std::size_t position, const PipelineInstruction& operation,
                    Stage& stage) {
    if (operation.version != stage.updates || operation.micro_batch != stage.updates) {
      problem(place(worker, position),
              "this is update " + std::to_string(stage.updates) + " of its stage");
    }
    const bool is_due = stage.left == 0
                            ? schedule_.accumulate == 0 || stage.gradients <= schedule_.accumulate
                            : schedule_.accumulate > 0 && stage.gradients == schedule_.accumulate;
    if (!is_due || stage.gradients == 0) {
      problem(place(worker, position), "an update comes after " + std::to_string(stage.gradients) +
                                           " gradients, with " + std::to_string(stage.left) +
                                           " to come");
    }
    stage.gradients = 0;
    ++stage.updates;
  }

  void check_in_flight() {
    if (limits_.in_flight.empty()) return;
    const std::vector<std::size_t> peaks = in_flight_peaks(schedule_);
    for (std::size_t w = 0; w < peaks.size(); ++w) {
      if (w < limits_.in_flight.size() && peaks[w] <= limits_.in_flight[w]) continue;
      problem("worker " + std::to_string(w),
              "it keeps " + std::to_string(peaks[w]) + " micro-batches at once",
              w < limits_.in_flight.size()
                  ? "it has room for " + std::to_string(limits_.in_flight[w])
                  : "it is not known how many it has room for");
    }
  }

  /// One direction of a channel between two workers, for the boundary after one stage.
  struct Channel {
    std::size_t from = 0;
    std::size_t to = 0;
    std::uint32_t stage = 0;
    auto operator<=>(const Channel&) const = default;
  };

  std::size_t worker_of(std::uint32_t micro_batch, std::uint32_t stage) {
    return passes_[{micro_batch, stage}].worker;
  }

  /// The channel through which an instruction gets its input or, for output_of(), sends its output.
  /// Empty if the instruction has no such input or output.
  std::optional<Channel> input_of(const PipelineInstruction& operation) {
    const std::uint32_t s = operation.stage;
    if (operation.action == Action::forward) return channel(operation.micro_batch, s, s - 1, s > 0);
    const bool is_last = s + 1 == schedule_.stages;
    return channel(operation.micro_batch, s, s + 1,
                   gives_input_gradient(operation.action) && !is_last);
  }
  std::optional<Channel> output_of(const PipelineInstruction& operation) {
    const std::uint32_t s = operation.stage;
    std::optional<Channel> back;
    if (operation.action == Action::forward) {
      back = channel(operation.micro_batch, s, s + 1, s + 1 < schedule_.stages);
    } else {
      back =
          channel(operation.micro_batch, s, s - 1, gives_input_gradient(operation.action) && s > 0);
    }
    if (back) std::swap(back->from, back->to);
    return back;
  }
  /// The channel from the worker of stage `other` to the worker of `stage`; nullopt unless
  /// `is_there`.
  std::optional<Channel> channel(std::uint32_t micro_batch, std::uint32_t stage,
                                 std::uint32_t other, bool is_there) {
    if (!is_there) return std::nullopt;
    return Channel{worker_of(micro_batch, other), worker_of(micro_batch, stage),
                   std::min(stage, other)};
  }

  bool is_ready(const PipelineInstruction& operation) {
    const Pass pass{operation.micro_batch, operation.stage};
    switch (operation.action) {
      case Action::forward:
        if (operation.stage > 0 && !forward_.contains({pass.first, pass.second - 1})) return false;
        break;
      case Action::backward:
      case Action::backward_input:
        if (!forward_.contains(pass)) return false;
        if (operation.stage + 1 < schedule_.stages &&
            !backward_.contains({pass.first, pass.second + 1})) {
          return false;
        }
        break;
      case Action::backward_weight:
        return backward_.contains(pass);
      case Action::update:
        return true;
    }
    const std::optional<Channel> out = output_of(operation);
    return limits_.channel == 0 || !out || out->from == out->to || waiting_[*out] < limits_.channel;
  }

  void complete(const PipelineInstruction& operation) {
    const Pass pass{operation.micro_batch, operation.stage};
    if (operation.action == Action::forward) forward_.insert(pass);
    if (gives_input_gradient(operation.action)) backward_.insert(pass);
    if (operation.action == Action::update || operation.action == Action::backward_weight) return;
    if (const auto in = input_of(operation); in && in->from != in->to) --waiting_[*in];
    if (const auto out = output_of(operation); out && out->from != out->to) ++waiting_[*out];
  }

  /// Executes instructions until no more can be executed.
  void run() {
    std::vector<std::size_t> positions(schedule_.workers.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t w = 0; w < positions.size(); ++w) {
        const auto& list = schedule_.workers[w];
        while (positions[w] < list.size() && is_ready(list[positions[w]])) {
          complete(list[positions[w]++]);
          moved = true;
        }
      }
    }
    for (std::size_t w = 0; w < positions.size(); ++w) {
      if (positions[w] == schedule_.workers[w].size()) continue;
      problem(place(w, positions[w]),
              to_string(schedule_.workers[w][positions[w]], true) + " waits for ever",
              "the lists wait for each other in a circle");
    }
  }

  const PipelineSchedule& schedule_;
  const PipelineLimits& limits_;
  Problems found_;
  std::map<Pass, PassCounts> passes_;
  std::set<Pass> forward_;
  std::set<Pass> backward_;
  std::map<Channel, std::size_t> waiting_;
};

}  // namespace

Problems problems(const PipelineSchedule& schedule, const PipelineLimits& limits) {
  return Checker(schedule, limits).problems();
}

std::vector<std::size_t> in_flight_peaks(const PipelineSchedule& schedule) {
  std::vector<std::size_t> peaks;
  for (const auto& list : schedule.workers) {
    std::size_t now = 0;
    std::size_t peak = 0;
    for (const PipelineInstruction& operation : list) {
      if (operation.action == Action::forward) peak = std::max(peak, ++now);
      if (gives_weight_gradient(operation.action)) now -= std::min<std::size_t>(now, 1);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

std::vector<std::size_t> staleness(const PipelineSchedule& schedule) {
  std::vector<std::size_t> most;
  for (const auto& list : schedule.workers) {
    // For each stage, the oldest version among the gradients since its last update.
    std::map<std::uint32_t, std::uint32_t> oldest;
    std::size_t worst = 0;
    for (const PipelineInstruction& operation : list) {
      if (gives_weight_gradient(operation.action)) {
        const auto [entry, is_first] = oldest.try_emplace(operation.stage, operation.version);
        if (!is_first) entry->second = std::min(entry->second, operation.version);
      } else if (operation.action == Action::update && oldest.contains(operation.stage)) {
        worst = std::max<std::size_t>(worst, operation.version - oldest[operation.stage]);
        oldest.erase(operation.stage);
      }
    }
    most.push_back(worst);
  }
  return most;
}

std::vector<std::size_t> versions_kept(const PipelineSchedule& schedule) {
  std::vector<std::size_t> most;
  for (const auto& list : schedule.workers) {
    std::map<std::uint32_t, std::uint32_t> newest;
    std::map<std::uint32_t, std::multiset<std::uint32_t>> in_use;
    std::size_t peak = 0;
    for (const PipelineInstruction& operation : list) {
      auto& used = in_use[operation.stage];
      if (operation.action == Action::forward) used.insert(operation.version);
      if (gives_weight_gradient(operation.action)) {
        const auto entry = used.find(operation.version);
        if (entry != used.end()) used.erase(entry);
      }
      if (operation.action == Action::update) newest[operation.stage] = operation.version + 1;
      const std::set<std::uint32_t> different(used.begin(), used.end());
      peak = std::max(peak, different.size() + !different.contains(newest[operation.stage]));
    }
    most.push_back(peak);
  }
  return most;
}

}  // namespace gv
