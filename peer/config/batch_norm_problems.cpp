// Finds batch norms among layers, and checks the mode, the batch and the threads against them.
#include "peer/config/batch_norm_problems.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "peer/config/buffer_problems.hpp"

namespace gv {
namespace {

bool has_batch_norm(const LayerSpec& layer) {
  return any_layer(layer,
                   [](const LayerSpec& inner) { return inner.kind == LayerKind::batch_norm; });
}

bool has_local_statistics(const LayerSpec& layer) {
  return any_layer(layer, [](const LayerSpec& inner) {
    return inner.kind == LayerKind::batch_norm && inner.statistics == Statistics::local;
  });
}

/// True if peers have models, or replicas of stages, that differ and are mixed with those of other
/// peers.
bool mixes_models(const Config& config) {
  return config.run.mode == ModeKind::gossip || config.run.mode == ModeKind::mixing ||
         (config.run.mode == ModeKind::pipeline &&
          config.pipeline.consensus != StageConsensus::allreduce);
}

}  // namespace

Problems batch_norm_problems(const Config& config, const std::vector<LayerSpec>& layers) {
  const auto found = std::ranges::find_if(layers, has_batch_norm);
  if (found == layers.end()) return {};
  const std::string place = "model.layers[" + std::to_string(found - layers.begin()) + "]";
  Problems problems = buffer_problems(config);
  const bool is_local = std::ranges::any_of(layers, has_local_statistics);
  if (mixes_models(config) && is_local) {
    problems.push_back({place,
                        "each peer's batch_norm has the statistics of its own batches, and a mixed "
                        "model fits no peer's statistics",
                        "use kind = \"group_norm\", whose statistics are those of one sample, or "
                        "set statistics = \"pooled\" to mix the statistics as well"});
  }
  if (config.train.batch < 2) {
    problems.push_back({"train.batch", "a batch_norm needs samples that differ",
                        "set batch to 16 or more, or use kind = \"group_norm\""});
  }
  if (config.train.threads > 1) {
    problems.push_back({"train.threads",
                        "steps without locks scale all they change by the learning rate, also the "
                        "statistics of a batch_norm",
                        "set threads = 1, or use kind = \"group_norm\""});
  }
  return problems;
}

}  // namespace gv
