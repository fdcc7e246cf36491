// Simulates how long a schedule takes, given the costs of stages and links.
#pragma once

#include <cstddef>
#include <vector>

#include "consensus/pipeline/schedule.hpp"

namespace gv {

/// The cost of one micro-batch in one stage. Times are in seconds on a worker of speed 1.
struct StageCost {
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
  double update = 0;
  /// True if activations are recomputed. Each backward pass then begins with a forward pass.
  bool recomputes = false;

  /// The time that this action takes, in seconds.
  double seconds(PipelineAction action) const;
};

/// The cost of sending one way between two stages: the link is busy for `seconds`, and the data
/// arrive `latency_s` later. The two directions do not slow each other down.
struct BoundaryCost {
  double seconds = 0;
  double latency_s = 0;
};

struct PipelineCosts {
  std::vector<StageCost> stages;
  /// boundaries[s] is the cost between stages s and s+1. Empty means that all boundaries cost
  /// nothing.
  std::vector<BoundaryCost> boundaries;
  std::vector<double> speeds;  ///< Speeds of the workers. Empty means all 1.
};

/// An instruction with its start and end, in seconds since the beginning of the run.
struct TimedOperation {
  PipelineInstruction operation;
  double begin = 0;
  double end = 0;
};

struct PipelineTiming {
  std::vector<std::vector<TimedOperation>> workers;
  double makespan = 0;
  std::vector<double> busy;  ///< Seconds for which each worker is busy.

  /// The fraction of all workers' time that is idle: 1 - busy / makespan.
  double bubble() const;
};

/// Simulates a schedule from make_schedule(). Each worker follows its list in order and begins an
/// instruction as soon as the previous one is done and its input has arrived. Links carry results
/// one after another, in the order in which they are made, while workers compute.
PipelineTiming replay(const PipelineSchedule& schedule, const PipelineCosts& costs);

/// Simulates a schedule with measured times: seconds[w][i] is the time of instruction i of worker
/// w. Uses only the boundaries of `costs`.
PipelineTiming replay(const PipelineSchedule& schedule, const PipelineCosts& costs,
                      const std::vector<std::vector<double>>& seconds);

}  // namespace gv
