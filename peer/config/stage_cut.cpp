// Estimates the work and memory of layers, and searches for a cut.
#include "peer/config/stage_cut.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "consensus/pipeline/stage_partition.hpp"
#include "peer/modes/pipeline_options.hpp"
#include "train/learner/group_place.hpp"
#include "train/model.hpp"
#include "train/model_stages.hpp"
#include "train/optimizer.hpp"

namespace gv {
namespace {

/// Returns the fewest slices that a member of a full group must be able to hold. Without groups, a
/// peer has all slices. With groups, the result is at least two: if every member held only one
/// slice, a further peer could neither join the group nor form another.
std::size_t slices_at_least(const PipelineConfig& pipeline) {
  const std::size_t full = (slices_of_stage + pipeline.group - 1) / pipeline.group;
  return std::max<std::size_t>(full, 2);
}

/// Returns the cost of layers [first, end) for a peer that has `slices` of the slices into which a
/// group divides them.
LayerCost cost_of(const Config& config, const std::vector<LayerWork>& layers, std::size_t first,
                  std::size_t end, std::size_t slices) {
  LayerCost cost;
  for (std::size_t i = first; i < end; ++i) {
    const LayerWork& layer = layers[i];
    cost.forward_s += layer.operations;
    cost.backward_s += 2 * layer.operations;
    const double part = config.pipeline.group > 1
                            ? static_cast<double>(slices) / static_cast<double>(slices_of_stage)
                            : 1;
    const bool keeps_strips = !layer.units.empty() && layer.units.back().has_strips;
    cost.parameter_bytes += sizeof(float) * (static_cast<double>(layer.parameters) -
                                             (1 - part) * static_cast<double>(layer.sliced));
    cost.output_bytes = static_cast<double>(sizeof(float) * layer.outputs * config.train.batch);
    cost.kept_bytes += cost.output_bytes * (keeps_strips ? part : 1);
  }
  return cost;
}

/// Returns the fastest partition of these layers in which no stage exceeds `memory_bytes` (0 means
/// no limit).
std::optional<StagePartition> partition(const Config& config, const std::vector<LayerCost>& parts,
                                        std::size_t stages, double memory_bytes) {
  const PipelineConfig& pipeline = config.pipeline;
  PipelineSite site{.speeds = std::vector<double>(stages, 1.0)};
  if (memory_bytes > 0) site.memory_bytes.assign(stages, memory_bytes);
  // The memory holds the gradients of one micro-batch, their sum, and the optimiser's vectors. A
  // run with several updates also keeps its first state, in case the run is abandoned.
  const auto vectors = static_cast<double>(optimizer_vectors(config.train.optimizer));
  const bool keeps_versions = !is_synchronous(pipeline.schedule);
  double state = 2 + vectors + (keeps_versions ? 1 + vectors : 0);
  // In a group, every peer also keeps the last copies of its own state and of a neighbour's.
  if (pipeline.group > 1 && pipeline.copy_every > 0) state += 2 * (1 + vectors);
  return partition_stages(parts, site,
                          {.stages = stages,
                           .kind = pipeline.schedule,
                           .micro_batches = pipeline.micro_batches,
                           .accumulate = pipeline.accumulate,
                           .ahead = pipeline.ahead,
                           .state_per_parameter = state,
                           .recomputes = pipeline.recompute});
}

/// Returns the cut whose slowest stage is fastest, by estimated costs of layers. With full groups,
/// no stage exceeds `memory_bytes` (0 means no limit). Returns an empty list if there is no such
/// cut.
std::vector<std::size_t> estimated_cut(const Config& config, const ModelSpec& model,
                                       SampleShape shape, double memory_bytes) {
  // A layer that cannot begin a stage is merged with the layer before it.
  std::vector<std::size_t> begins;
  const std::vector<LayerWork> layers = layer_work(model, shape);
  bool learns_before = false;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i == 0 || (layers[i].may_begin_stage && learns_before)) begins.push_back(i);
    learns_before = learns_before || layers[i].parameters > 0;
  }
  begins.push_back(layers.size());
  std::vector<LayerCost> parts;
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    parts.push_back(
        cost_of(config, layers, begins[i], begins[i + 1], slices_at_least(config.pipeline)));
  }
  const auto found = partition(config, parts, config.pipeline.stages, memory_bytes);
  std::vector<std::size_t> ends;
  if (!found) return ends;
  for (const PlannedStage& stage : found->stages) ends.push_back(begins[stage.end_layer]);
  return ends;
}

}  // namespace

std::vector<std::size_t> stage_ends(const Config& config, const ModelSpec& model,
                                    SampleShape shape) {
  if (!config.pipeline.ends.empty()) return config.pipeline.ends;
  return estimated_cut(config, model, shape, 1e6 * config.pipeline.memory_mb);
}

std::size_t slices_most(const Config& config, const ModelSpec& model, SampleShape shape,
                        const std::vector<std::size_t>& ends) {
  if (config.pipeline.group == 1 || config.pipeline.memory_mb == 0) return 0;
  const std::vector<LayerWork> layers = layer_work(model, shape);
  const std::size_t least = slices_at_least(config.pipeline);
  for (std::size_t slices = slices_of_stage; slices > least; --slices) {
    std::vector<LayerCost> parts;
    std::size_t first = 0;
    for (const std::size_t end : ends) {
      parts.push_back(cost_of(config, layers, std::exchange(first, end), end, slices));
    }
    if (partition(config, parts, ends.size(), 1e6 * config.pipeline.memory_mb)) return slices;
  }
  return least;
}

Problem no_cut(const Config& config, const ModelSpec& model, SampleShape shape) {
  if (config.pipeline.memory_mb == 0 || estimated_cut(config, model, shape, 0).empty()) {
    return {"pipeline.stages",
            fmt::format("the model cannot be cut into {} stages with parameters",
                        config.pipeline.stages),
            "use fewer stages"};
  }
  // Bisects for the smallest sufficient memory, to within a thousandth.
  double too_little = 1e6 * config.pipeline.memory_mb;
  double enough = 2 * too_little;
  while (estimated_cut(config, model, shape, enough).empty()) enough *= 2;
  while (enough > 1.001 * too_little) {
    const double between = (too_little + enough) / 2;
    (estimated_cut(config, model, shape, between).empty() ? too_little : enough) = between;
  }
  const std::size_t least = slices_at_least(config.pipeline);
  const std::size_t members = (slices_of_stage + least - 1) / least;
  return {"pipeline.memory_mb",
          fmt::format("with {} stages one needs {:.4g} MB at least, whatever the cut{}",
                      config.pipeline.stages, 1e-6 * enough,
                      config.pipeline.group > 1
                          ? fmt::format(", at each of {} peers that share it", members)
                          : ""),
          config.pipeline.group > 1 && least > 2
              ? "allow that much, or use more stages, smaller batches or a larger group"
          : config.pipeline.recompute || config.pipeline.group > 1
              ? "allow that much, or use more stages or smaller batches"
              : "allow that much, use more stages or smaller batches, or write recompute = true"};
}

}  // namespace gv
