// Checks that step times can be predicted for a plan, and that some plan can keep the pins.
#include "peer/config/plan_problems.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "consensus/message/certificate.hpp"
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

Problems pin_problems(const Config& config) {
  const PipelineConfig& pipeline = config.pipeline;
  const std::size_t stages = pipeline.stage_count();
  Problems found;
  const auto add = [&](std::string reason, std::string remedy) {
    found.push_back({"pipeline.pins", std::move(reason), std::move(remedy)});
  };
  std::map<std::uint32_t, std::size_t> carriers;
  for (const auto& [name, stage] : pipeline.pins) {
    if (!is_peer_name(name)) {
      add(fmt::format("no peer can be called \"{}\"", name),
          "write a name of 1 to 64 letters, digits, dots, dashes or underscores");
    }
    if (stage < stages) {
      // In a mirrored schedule, a peer carries both the stage and its mirror image.
      const bool is_mirrored = pipeline.schedule == PipelineKind::chimera;
      ++carriers[is_mirrored ? std::min<std::uint32_t>(stage, stages - 1 - stage) : stage];
    } else {
      add(fmt::format("there is no stage {} for {}: the last one is {}", stage, name, stages - 1),
          "pin it to an earlier stage, or cut the model into more stages");
    }
  }
  // If a stage had more peers, some of them would never get a micro-batch.
  const std::size_t most = pipeline.micro_batches * pipeline.group;
  for (const auto& [stage, count] : carriers) {
    if (count <= most) continue;
    add(fmt::format("{} peers are pinned to stage {}, whose micro-batches occupy {}", count, stage,
                    most),
        "pin fewer peers to it, or raise micro_batches");
  }
  return found;
}

}  // namespace gv
