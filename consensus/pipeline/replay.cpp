// Simulates how a schedule runs over time.
#include "consensus/pipeline/replay.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "base/check.hpp"

namespace gv {
namespace {

using Action = PipelineAction;

constexpr double not_yet = std::numeric_limits<double>::infinity();

class Clock {
 public:
  /// `seconds` holds the times of all instructions. If it is null, the costs determine the times.
  Clock(const PipelineSchedule& schedule, const PipelineCosts& costs,
        const std::vector<std::vector<double>>* seconds)
      : schedule_(schedule),
        costs_(costs),
        seconds_(seconds),
        free_at_(schedule.workers.size(), 0),
        positions_(schedule.workers.size(), 0),
        inputs_(schedule.micro_batches * schedule.stages, not_yet),
        gradients_(schedule.micro_batches * schedule.stages, not_yet) {
    check(seconds != nullptr || costs.stages.size() == schedule.stages, "every stage has its cost");
    for (std::size_t b = 0; b < schedule.micro_batches; ++b) inputs_[b * schedule.stages] = 0;
    worker_of_.assign(inputs_.size(), 0);
    for (std::size_t w = 0; w < schedule.workers.size(); ++w) {
      for (const PipelineInstruction& operation : schedule.workers[w]) {
        if (operation.action == Action::forward) worker_of_[index(operation)] = w;
      }
    }
  }

  PipelineTiming run() {
    PipelineTiming timing;
    timing.workers.resize(schedule_.workers.size());
    timing.busy.assign(schedule_.workers.size(), 0);
    // Always takes the instruction that begins first, so that links get results in chronological
    // order.
    while (true) {
      std::size_t first = schedule_.workers.size();
      double begin = not_yet;
      for (std::size_t w = 0; w < positions_.size(); ++w) {
        const double own = begin_of(w);
        if (own >= begin) continue;
        begin = own;
        first = w;
      }
      if (first == schedule_.workers.size()) break;
      const std::size_t position = positions_[first]++;
      const PipelineInstruction& operation = schedule_.workers[first][position];
      const double end = begin + seconds_of(first, position);
      free_at_[first] = end;
      timing.workers[first].push_back({operation, begin, end});
      timing.busy[first] += end - begin;
      timing.makespan = std::max(timing.makespan, end);
      pass_on(operation, end);
    }
    for (std::size_t w = 0; w < positions_.size(); ++w) {
      check(positions_[w] == schedule_.workers[w].size(), "a sound schedule comes to its end");
    }
    return timing;
  }

 private:
  double seconds_of(std::size_t worker, std::size_t position) const {
    if (seconds_ != nullptr) return (*seconds_)[worker][position];
    const PipelineInstruction& operation = schedule_.workers[worker][position];
    const double speed = costs_.speeds.empty() ? 1 : costs_.speeds[worker];
    return costs_.stages[operation.stage].seconds(operation.action) / speed;
  }

  std::size_t index(const PipelineInstruction& operation) const {
    return operation.micro_batch * schedule_.stages + operation.stage;
  }

  double begin_of(std::size_t worker) const {
    const auto& list = schedule_.workers[worker];
    if (positions_[worker] == list.size()) return not_yet;
    const PipelineInstruction& next = list[positions_[worker]];
    double input = 0;
    if (next.action == Action::forward) input = inputs_[index(next)];
    if (next.action == Action::backward || next.action == Action::backward_input) {
      input = gradients_[index(next)];
    }
    return std::max(free_at_[worker], input);
  }

  void pass_on(const PipelineInstruction& done, double end) {
    const bool goes_back = done.action == Action::backward || done.action == Action::backward_input;
    if (done.action == Action::forward) {
      if (done.stage + 1 == schedule_.stages) {
        gradients_[index(done)] = end;
      } else {
        inputs_[index(done) + 1] = arrival(done, index(done) + 1, done.stage, end);
      }
    } else if (goes_back && done.stage > 0) {
      gradients_[index(done) - 1] = arrival(done, index(done) - 1, done.stage - 1, end);
    }
  }

  double arrival(const PipelineInstruction& done, std::size_t to, std::size_t boundary,
                 double end) {
    const std::size_t from_worker = worker_of_[index(done)];
    const std::size_t to_worker = worker_of_[to];
    if (costs_.boundaries.empty() || from_worker == to_worker) return end;
    const BoundaryCost& cost = costs_.boundaries[boundary];
    double& link = links_[{from_worker, to_worker}];
    link = std::max(link, end) + cost.seconds;
    return link + cost.latency_s;
  }

  const PipelineSchedule& schedule_;
  const PipelineCosts& costs_;
  const std::vector<std::vector<double>>* seconds_;
  std::vector<double> free_at_;
  std::vector<std::size_t> positions_;
  std::vector<double> inputs_;     ///< When activations arrive, by micro-batch and stage.
  std::vector<double> gradients_;  ///< When gradients arrive, by micro-batch and stage.
  std::vector<std::size_t> worker_of_;
  /// For each pair of workers, when the link between them becomes free.
  std::map<std::pair<std::size_t, std::size_t>, double> links_;
};

}  // namespace

double StageCost::seconds(PipelineAction action) const {
  const double again = recomputes ? forward : 0;
  switch (action) {
    case Action::forward:
      return forward;
    case Action::backward:
      return again + backward_input + backward_weight;
    case Action::backward_input:
      return again + backward_input;
    case Action::backward_weight:
      return backward_weight;
    case Action::update:
      return update;
  }
  return 0;
}

double PipelineTiming::bubble() const {
  double all = 0;
  for (const double seconds : busy) all += seconds;
  const double whole = makespan * static_cast<double>(busy.size());
  return whole > 0 ? 1 - all / whole : 0;
}

PipelineTiming replay(const PipelineSchedule& schedule, const PipelineCosts& costs) {
  return Clock(schedule, costs, nullptr).run();
}

PipelineTiming replay(const PipelineSchedule& schedule, const PipelineCosts& costs,
                      const std::vector<std::vector<double>>& seconds) {
  return Clock(schedule, costs, &seconds).run();
}

}  // namespace gv
