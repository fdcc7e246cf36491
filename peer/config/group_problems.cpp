// Checks that the peers of a group can share a pass, and that their gradients can be summed.
#include "peer/config/group_problems.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace gv {

Problems group_problems(const Config& config) {
  const PipelineConfig& pipeline = config.pipeline;
  Problems found;
  const auto add = [&](std::string reason, std::string remedy) {
    found.push_back({"pipeline.group", std::move(reason), std::move(remedy)});
  };
  if (pipeline.consensus != StageConsensus::allreduce) {
    add("members of a group add up one gradient, and the replicas of a stage would not",
        "write consensus = \"allreduce\", or group = 1");
  }
  if (!is_synchronous(pipeline.schedule)) {
    add(fmt::format("with schedule = \"{}\" a stage has several versions of its parameters in a "
                    "run, and a group one",
                    to_string(pipeline.schedule)),
        "write schedule = \"1f1b\", or group = 1");
  }
  if (pipeline.recompute) {
    add("members of a group do not sum again for activations that are computed again",
        "write recompute = false, or group = 1");
  }
  const OptimizerKind optimizer = config.train.optimizer.kind;
  if (optimizer == OptimizerKind::lars || optimizer == OptimizerKind::lamb) {
    add("lars and lamb measure whole tensors, of which a member of a group has a part",
        "write optimizer = \"adam\" or \"nesterov\", or group = 1");
  }
  if (config.model.weights == WeightValues::ternary) {
    add("a ternary matrix has one scale, and a member of a group does not have the whole matrix",
        "write weights = \"float\" below [model], or group = 1");
  }
  return found;
}

namespace {

bool says_how(const LayerSpec& layer) {
  return layer.split == LayerSplit::model || layer.split == LayerSplit::rows;
}

/// True if `layer`, or a layer inside it, sets `split` although other layers run in parallel with
/// it, as in a concat or beside a shortcut. `is_beside` is true if others run in parallel with
/// `layer` itself.
bool is_beside_others(const LayerSpec& layer, bool is_beside) {
  const bool are_beside = is_beside || layer.kind == LayerKind::concat || !layer.shortcut.empty();
  const auto inside = [](bool beside) {
    return [beside](const LayerSpec& inner) { return is_beside_others(inner, beside); };
  };
  return (is_beside && says_how(layer)) || std::ranges::any_of(layer.layers, inside(are_beside)) ||
         std::ranges::any_of(layer.shortcut, inside(true));
}

}  // namespace

Problems split_problems(const Config& config) {
  const bool has_groups = config.run.mode == ModeKind::pipeline && config.pipeline.group > 1;
  Problems found;
  for (std::size_t i = 0; i < config.model.layers.size(); ++i) {
    const LayerSpec& layer = config.model.layers[i];
    const std::string place = fmt::format("model.layers[{}]", i);
    if (!has_groups && any_layer(layer, says_how)) {
      found.push_back({place, "split says how a group shares the layer, and there are no groups",
                       "write mode = \"pipeline\" and group = 2 or more, or remove split"});
    } else if (is_beside_others(layer, false)) {
      found.push_back({place, "layers in a concat, and beside a shortcut, are not shared",
                       "remove split from them"});
    }
  }
  return found;
}

}  // namespace gv
