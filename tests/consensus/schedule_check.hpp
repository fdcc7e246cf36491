// Checks that a schedule does every micro-batch's work exactly once, and that it ends.
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

/// Lists everything that is wrong with a schedule from any source. Empty if these conditions hold:
///
/// - every micro-batch goes forward and back once through every stage, at the same worker, with the
///   same version of the parameters (a backward pass may be split into its two parts);
/// - every gradient is in exactly one update, and updates come as often as `accumulate` requires;
/// - the version of the parameters that an instruction asks for was made before the instruction;
/// - the lists end although workers wait for each other: there are no cycles, not even through
///   full channels;
/// - no worker holds more micro-batches than it has room for.
///
/// Places read like "worker 2, operation 7". Takes O(n log n) time for n instructions.
Problems problems(const PipelineSchedule& schedule, const PipelineLimits& limits = {});

/// For each worker, the largest number of micro-batches whose activations the worker keeps at the
/// same time.
std::vector<std::size_t> in_flight_peaks(const PipelineSchedule& schedule);

/// For each worker, the largest staleness of a gradient: the number of updates between the
/// parameters that it was computed with and the update that applies it.
std::vector<std::size_t> staleness(const PipelineSchedule& schedule);

/// For each worker, the largest number of versions of one stage's parameters that the worker keeps
/// at the same time: the newest, and those that micro-batches in flight still need.
std::vector<std::size_t> versions_kept(const PipelineSchedule& schedule);

}  // namespace gv
