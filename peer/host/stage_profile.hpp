// What layers and stages really take on this machine, and a step of a pipeline worked off in one
// process.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "consensus/pipeline/replay.hpp"
#include "consensus/pipeline/stage_partition.hpp"
#include "train/stage_trainer.hpp"

namespace gv {

/// Layers [first, end) between which no cut is possible; mostly one.
struct LayerProfile {
  std::size_t first = 0;
  std::size_t end = 0;
  std::string name;  ///< As in configs: "conv2d 64", "residual (layer_norm, attention)".
  std::size_t parameters = 0;
  double forward_s = 0;
  double backward_input_s = 0;
  double backward_weight_s = 0;
  double output_bytes = 0;  ///< Of a micro-batch.
};

struct StageProfile {
  std::size_t parameters = 0;
  std::size_t optimizer_vectors = 0;  ///< As long as the parameters.
  StageCost cost;                     ///< Medians; backward is what the schedule's kind does.
  double forward_bytes = 0;           ///< To the next stage, of a micro-batch,
  double backward_bytes = 0;          ///< and what comes back.
  double input_bytes = 0;             ///< What one micro-batch brings in.
  double network_bytes = 0;           ///< Activations and scratch of one micro-batch in flight.
};

/// Both repeat the pass of one micro-batch through all of the model until `seconds` are over, at
/// least three times, and take the median of each part. The spec and its cut must be sound; `data`
/// is what batches are drawn from. One thread computes, and its processor time is what counts.
std::vector<LayerProfile> profile_layers(const StagesSpec& spec,
                                         const std::shared_ptr<const DataSet>& data,
                                         double seconds);
/// `splits`: whether backward comes in two parts, as in zero-bubble.
std::vector<StageProfile> profile_stages(const StagesSpec& spec,
                                         const std::shared_ptr<const DataSet>& data, bool splits,
                                         double seconds);

/// One past the last layer of each stage of a partition whose layers are those of a profile.
std::vector<std::size_t> ends_of(const StagePartition& partition,
                                 std::span<const LayerProfile> layers);

struct MeasuredSteps {
  PipelineTiming median;  ///< The step whose makespan is the median.
  std::size_t steps = 0;  ///< Measured.
  double least_s = 0;
  double most_s = 0;
};

/// Works a schedule off for real, every worker with its own parameters and activations, all
/// operations one after the other in the order of `predicted`; what each takes is then put on the
/// schedule's clock, with the boundaries of `costs`. Steps are repeated until `seconds` are over,
/// at least three times after one to warm up.
MeasuredSteps measure_steps(const StagesSpec& spec, const std::shared_ptr<const DataSet>& data,
                            const PipelineSchedule& schedule, const PipelineCosts& costs,
                            const PipelineTiming& predicted, double seconds);

}  // namespace gv
