// Simulates how long a schedule takes with given costs of stages and links.
#pragma once

#include <cstddef>
#include <vector>

#include "consensus/pipeline/schedule.hpp"

namespace gv {

/// What one micro-batch costs in one stage, in seconds at a worker of speed 1.
struct StageCost {
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
  double update = 0;
  /// An extra forward pass precedes each backward pass: activations are not kept but recomputed.
  bool recomputes = false;

  /// The time of one instruction.
  double seconds(PipelineAction action) const;
};

/// The cost of a boundary between two stages, each way: the link is busy for `seconds`, and the
/// data arrive `latency_s` later. The two directions do not disturb each other.
struct BoundaryCost {
  double seconds = 0;
  double latency_s = 0;
};

struct PipelineCosts {
  std::vector<StageCost> stages;
  std::vector<BoundaryCost> boundaries;  ///< Between stage s and s+1; empty: all are free.
  std::vector<double> speeds;            ///< Of workers; empty: all 1.
};

/// An instruction with its begin and end, in seconds from the beginning of the run.
struct TimedOperation {
  PipelineInstruction operation;
  double begin = 0;
  double end = 0;
};

struct PipelineTiming {
  std::vector<std::vector<TimedOperation>> workers;
  double makespan = 0;
  std::vector<double> busy;  ///< Of each worker.

  /// The fraction of all workers' time in which they are idle: 1 - busy / makespan.
  double bubble() const;
};

/// Runs a schedule as make_schedule() gives it: each worker's list in order, each instruction as
/// soon as the one before it is done and its input is there. Links carry one result after another,
/// in the order in which they are made, while workers compute.
PipelineTiming replay(const PipelineSchedule& schedule, const PipelineCosts& costs);

/// The same with a time for every instruction: seconds[w][i] for instruction i of worker w. Of
/// `costs` only the boundaries count.
PipelineTiming replay(const PipelineSchedule& schedule, const PipelineCosts& costs,
                      const std::vector<std::vector<double>>& seconds);

}  // namespace gv
