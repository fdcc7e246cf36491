// Estimates the work and memory of layers, and searches for a cut.
#include "peer/config/stage_cut.hpp"

#include <fmt/format.h>

#include "consensus/pipeline/stage_partition.hpp"
#include "peer/modes/pipeline_options.hpp"
#include "train/model.hpp"
#include "train/model_stages.hpp"
#include "train/optimizer.hpp"

namespace gv {
namespace {

/// The cut whose slowest stage is fastest, by estimated costs of layers, with no stage above
/// `memory_bytes` (0 means no limit). Empty if there is none.
std::vector<std::size_t> estimated_cut(const Config& config, const ModelSpec& model,
                                       SampleShape shape, double memory_bytes) {
  const PipelineConfig& pipeline = config.pipeline;
  // A layer that no stage may begin with is merged with the layer before it.
  std::vector<LayerCost> parts;
  std::vector<std::size_t> begins;
  const std::vector<LayerWork> layers = layer_work(model, shape);
  bool learns_before = false;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (parts.empty() || (layers[i].may_begin_stage && learns_before)) {
      parts.emplace_back();
      begins.push_back(i);
    }
    learns_before = learns_before || layers[i].parameters > 0;
    LayerCost& part = parts.back();
    part.forward_s += layers[i].operations;
    part.backward_s += 2 * layers[i].operations;
    part.parameter_bytes += static_cast<double>(sizeof(float) * layers[i].parameters);
    part.output_bytes = static_cast<double>(sizeof(float) * layers[i].outputs * config.train.batch);
    part.kept_bytes += part.output_bytes;
  }
  begins.push_back(layers.size());
  PipelineSite site{.speeds = std::vector<double>(pipeline.stages, 1.0)};
  if (memory_bytes > 0) site.memory_bytes.assign(pipeline.stages, memory_bytes);
  // Memory for the gradients of one micro-batch and of all, and for the optimiser's vectors. A run
  // with several updates also keeps its first state, in case it is abandoned.
  const auto vectors = static_cast<double>(optimizer_vectors(config.train.optimizer));
  const bool keeps_versions = !is_synchronous(pipeline.schedule);
  const auto partition =
      partition_stages(parts, site,
                       {.stages = pipeline.stages,
                        .kind = pipeline.schedule,
                        .micro_batches = pipeline.micro_batches,
                        .accumulate = pipeline.accumulate,
                        .ahead = pipeline.ahead,
                        .state_per_parameter = 2 + vectors + (keeps_versions ? 1 + vectors : 0),
                        .recomputes = pipeline.recompute});
  std::vector<std::size_t> ends;
  if (!partition) return ends;
  for (const PlannedStage& stage : partition->stages) ends.push_back(begins[stage.end_layer]);
  return ends;
}

}  // namespace

std::vector<std::size_t> stage_ends(const Config& config, const ModelSpec& model,
                                    SampleShape shape) {
  if (!config.pipeline.ends.empty()) return config.pipeline.ends;
  return estimated_cut(config, model, shape, 1e6 * config.pipeline.memory_mb);
}

Problem no_cut(const Config& config, const ModelSpec& model, SampleShape shape) {
  if (config.pipeline.memory_mb == 0 || estimated_cut(config, model, shape, 0).empty()) {
    return {"pipeline.stages",
            fmt::format("the model cannot be cut into {} stages with parameters",
                        config.pipeline.stages),
            "use fewer stages"};
  }
  // Bisect for the smallest memory that is enough, to a thousandth.
  double too_little = 1e6 * config.pipeline.memory_mb;
  double enough = 2 * too_little;
  while (estimated_cut(config, model, shape, enough).empty()) enough *= 2;
  while (enough > 1.001 * too_little) {
    const double between = (too_little + enough) / 2;
    (estimated_cut(config, model, shape, between).empty() ? too_little : enough) = between;
  }
  return {"pipeline.memory_mb",
          fmt::format("with {} stages one needs {:.4g} MB at least, whatever the cut",
                      config.pipeline.stages, 1e-6 * enough),
          config.pipeline.recompute ? "allow that much, or use more stages or smaller batches"
                                    : "allow that much, use more stages or smaller batches, or "
                                      "write recompute = true"};
}

}  // namespace gv
