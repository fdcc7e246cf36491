// Whether a schedule does every micro-batch's work exactly once, in an order that comes to an end.
#pragma once

#include <cstddef>
#include <vector>

#include "base/problems.hpp"
#include "consensus/pipeline/schedule.hpp"

namespace gv {

/// What workers can keep and pass on.
struct PipelineLimits {
  /// Micro-batches between forward and the end of backward that each worker can hold; empty: any.
  std::vector<std::size_t> in_flight;
  /// Results that wait between two workers, each way and each stage, before the sender waits; 0:
  /// any number.
  std::size_t channel = 0;
};

/// Everything that is wrong with a schedule, whoever made it; empty if it is sound:
///
/// - every micro-batch goes forward and back once through every stage, at the same worker, with the
///   same version of the parameters (a backward pass is whole or in both parts);
/// - every gradient is in exactly one update, and updates come when `accumulate` says;
/// - parameters have the version an operation asks for: one that was made before;
/// - the lists come to an end when each waits for the others: no cycle, also not through channels
///   that are full;
/// - nobody holds more micro-batches than it can.
///
/// Places are "worker 2, operation 7". Costs are linear in the operations, times their logarithm.
Problems problems(const PipelineSchedule& schedule, const PipelineLimits& limits = {});

/// The most micro-batches whose activations each worker keeps at once, counted by its list.
std::vector<std::size_t> in_flight_peaks(const PipelineSchedule& schedule);

/// For each worker the most updates that came between the parameters a gradient was computed with
/// and the update it is in.
std::vector<std::size_t> staleness(const PipelineSchedule& schedule);

/// For each worker the most versions of one stage's parameters that it keeps at once: the newest
/// and those that micro-batches under way went forward with.
std::vector<std::size_t> versions_kept(const PipelineSchedule& schedule);

}  // namespace gv
