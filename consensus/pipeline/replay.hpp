// How long a schedule takes: its operations on a clock, with the costs of stages and links.
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
  /// A forward pass more before each backward pass: activations are not kept but computed again.
  bool recomputes = false;

  /// Of one operation.
  double seconds(PipelineAction action) const;
};

/// What a boundary between two stages costs, each way: the link is busy for `seconds`, and what was
/// sent arrives `latency_s` later. Both ways at once do not disturb each other.
struct BoundaryCost {
  double seconds = 0;
  double latency_s = 0;
};

struct PipelineCosts {
  std::vector<StageCost> stages;
  std::vector<BoundaryCost> boundaries;  ///< Between stage s and s+1; empty: nothing costs.
  std::vector<double> speeds;            ///< Of workers; empty: all 1.
};

/// An operation with its place in time, in seconds from the begin.
struct TimedOperation {
  PipelineInstruction operation;
  double begin = 0;
  double end = 0;
};

struct PipelineTiming {
  std::vector<std::vector<TimedOperation>> workers;
  double makespan = 0;
  std::vector<double> busy;  ///< Of each worker.

  /// The part of the workers' time in which they have nothing to do: 1 - busy / makespan, over all.
  double bubble() const;
};

/// Runs a sound schedule (see problems()): each worker's list in order, each operation as soon as
/// the one before it is done and its input is there. Links carry one result after another, in the
/// order in which they are made, while workers compute.
PipelineTiming replay(const PipelineSchedule& schedule, const PipelineCosts& costs);

/// The same with what every single operation takes: seconds[w][i] for the operation i of worker w.
/// Of `costs` only the boundaries count.
PipelineTiming replay(const PipelineSchedule& schedule, const PipelineCosts& costs,
                      const std::vector<std::vector<double>>& seconds);

}  // namespace gv
