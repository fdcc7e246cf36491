// Measures layers and stages on this machine, and runs a step of a pipeline in one process.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "consensus/pipeline/replay.hpp"
#include "consensus/pipeline/stage_partition.hpp"
#include "train/data_set.hpp"
#include "train/model_stages.hpp"

namespace gv {

/// Layers [first, end) that cannot be cut apart, usually a single layer.
struct LayerProfile {
  std::size_t first = 0;
  std::size_t end = 0;
  /// The name as in configs, such as "conv2d 64" or "residual (layer_norm, attention)".
  std::string name;
  std::size_t parameters = 0;
  double forward_s = 0;
  double backward_input_s = 0;
  double backward_weight_s = 0;
  double output_bytes = 0;  ///< Output bytes of a micro-batch.
};

struct StageProfile {
  std::size_t parameters = 0;
  std::size_t optimizer_vectors = 0;  ///< Vectors of the optimiser, each as long as the parameters.
  StageCost cost;             ///< Median times; the backward pass is split as in the schedule.
  double forward_bytes = 0;   ///< Bytes sent to the next stage for each micro-batch.
  double backward_bytes = 0;  ///< Bytes from the next stage for each micro-batch.
  double input_bytes = 0;     ///< Bytes of one micro-batch's input.
  /// Memory for the activations and scratch of one micro-batch in flight.
  double network_bytes = 0;
};

/// This function and the next one pass one micro-batch through the whole model repeatedly, for
/// `seconds` and at least three times. They return the median time of each part. The spec and its
/// cut must be valid. Batches are drawn from `data`. One thread computes, and its processor time is
/// measured.
std::vector<LayerProfile> profile_layers(const StagesSpec& spec,
                                         const std::shared_ptr<const DataSet>& data,
                                         double seconds);
/// Like profile_layers(), but for stages. `splits` is true if the backward pass has two parts, as
/// in zero-bubble.
std::vector<StageProfile> profile_stages(const StagesSpec& spec,
                                         const std::shared_ptr<const DataSet>& data, bool splits,
                                         double seconds);

/// Returns the end of each stage (one past its last layer), for a partition of a profile's layers.
std::vector<std::size_t> ends_of(const StagePartition& partition,
                                 std::span<const LayerProfile> layers);

struct MeasuredSteps {
  PipelineTiming median;  ///< The step with the median makespan.
  std::size_t steps = 0;  ///< Number of measured steps.
  double least_s = 0;
  double most_s = 0;
};

/// Executes a schedule. Every worker has its own parameters and activations, but all instructions
/// run one after another, in the order of `predicted`. The measured times are then replayed on the
/// schedule's clock, with the boundary costs of `costs`. Repeats steps for `seconds`, at least
/// three times after a warm-up.
MeasuredSteps measure_steps(const StagesSpec& spec, const std::shared_ptr<const DataSet>& data,
                            const PipelineSchedule& schedule, const PipelineCosts& costs,
                            const PipelineTiming& predicted, double seconds);

}  // namespace gv
