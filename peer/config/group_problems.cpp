// A group makes a pass together, sum by sum, and adds up one gradient.
#include "peer/config/group_problems.hpp"

#include <fmt/format.h>

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
  return found;
}

}  // namespace gv
