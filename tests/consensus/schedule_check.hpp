// Checks that a schedule does every micro-batch's work exactly once and ends.
#pragma once

#include <cstddef>
#include <vector>

#include "base/problems.hpp"
#include "consensus/pipeline/schedule.hpp"

namespace gv {

/// Limits of the workers and of the channels between them.
struct PipelineLimits {
  /// The largest number of micro-batches that each worker can hold between forward and the end of
  /// backward. Empty means any number.
  std::vector<std::size_t> in_flight;
  /// The largest number of results that may wait between two workers, for each direction and stage,
  /// before the sender has to wait; 0 means any number.
  std::size_t channel = 0;
};

/// Everything that is wrong with a schedule from any source; empty if it is sound:
///
/// - every micro-batch goes forward and back once through every stage, at the same worker, with the
///   same version of the parameters (a backward pass is whole or in both parts);
/// - every gradient is in exactly one update, and updates come when `accumulate` says;
/// - parameters have the version that an instruction asks for, which was made before it;
/// - the lists come to an end when workers wait for each other: no cycles, not even through full
///   channels;
/// - no worker holds more micro-batches than it can.
///
/// Places are "worker 2, operation 7". Takes time linear in the instructions, times their
/// logarithm.
Problems problems(const PipelineSchedule& schedule, const PipelineLimits& limits = {});

/// For each worker, the largest number of micro-batches whose activations it keeps at the same
/// time.
std::vector<std::size_t> in_flight_peaks(const PipelineSchedule& schedule);

/// For each worker, the largest number of updates between the parameters that a gradient was
/// computed with and the update that applies it.
std::vector<std::size_t> staleness(const PipelineSchedule& schedule);

/// For each worker, the largest number of versions of one stage's parameters that it keeps at the
/// same time: the newest, and those that micro-batches under way still need.
std::vector<std::size_t> versions_kept(const PipelineSchedule& schedule);

}  // namespace gv
