// Plans are made by the predicted time of a step, in a search that must end soon.
#include "peer/config/plan_problems.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "consensus/pipeline/stage_layout.hpp"

namespace gv {

Problems plan_problems(const Config& config) {
  const PipelineConfig& pipeline = config.pipeline;
  Problems found;
  const auto add = [&](std::string reason, std::string remedy) {
    found.push_back({"pipeline.plan", std::move(reason), remedy + ", or plan = \"steady\""});
  };
  if (!is_synchronous(pipeline.schedule) || pipeline.schedule == PipelineKind::chimera) {
    add(fmt::format("with schedule = \"{}\" peers carry stages that no plan could change",
                    to_string(pipeline.schedule)),
        "write schedule = \"1f1b\"");
  }
  if (pipeline.memory_mb > 0) {
    add("plans are made by time, and a peer might get stages above memory_mb",
        "write memory_mb = 0");
  }
  if (pipeline.consensus != StageConsensus::allreduce) {
    add("plans are made for replicas that sum their gradients in every step",
        "write consensus = \"allreduce\"");
  }
  if (pipeline.stage_count() > planned_stages_max) {
    add(fmt::format("plans are searched for up to {} stages", planned_stages_max),
        "use fewer stages");
  }
  if (pipeline.micro_batches > planned_micro_batches_max) {
    add(fmt::format("plans are searched for up to {} micro-batches", planned_micro_batches_max),
        "use fewer and larger micro-batches");
  }
  return found;
}

}  // namespace gv
