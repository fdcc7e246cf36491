// Pipelines of virtual peers: exact while nothing happens, and exact again after anything does.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <vector>

#include "tests/sim/pipeline_run.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

using Stages = std::map<std::size_t, std::vector<std::vector<float>>>;

/// Each stage once, if all its carriers have the same bits.
Stages run(const PipelineTask& task, const Simulator::Options& options) {
  Simulator world(options, task.workloads());
  StageRecord record(task, task.steps);
  world.watch(record);
  world.run(Time(10min));
  INFO(record.story);
  REQUIRE(record.newest == task.steps);
  REQUIRE(record.stages.size() == task.stages);
  for (const auto& [stage, replicas] : record.stages) {
    for (const auto& replica : replicas) CHECK(replica == replicas.front());
  }
  return record.stages;
}

Stages run(const PipelineTask& task) { return run(task, task.options()); }

}  // namespace

TEST_CASE("a pipeline of virtual peers is one peer that carries all stages bit for bit", "[sim]") {
  for (const PipelineKind kind :
       {PipelineKind::gpipe, PipelineKind::one_f_one_b, PipelineKind::zero_bubble}) {
    PipelineTask task{.peers = 1, .stages = 3, .kind = kind};
    const Stages alone = run(task);
    task.peers = 3;
    const Stages chain = run(task);
    REQUIRE(alone.size() == 3);
    CHECK(chain == alone);
  }
}

}  // namespace gv
