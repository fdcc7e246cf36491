// Replicas of a stage that have come to differ notice this when a newcomer needs the stage.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "tests/sim/other_replica.hpp"
#include "tests/sim/pipeline_run.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t harmed_at = 10;  ///< The step of the sum that is changed.

/// In one update, this workload gets different sums from the other replicas, as if a hostile peer
/// had sent different pieces to each replica.
class Misled final : public OtherReplica {
 public:
  Misled(std::unique_ptr<Replica> inner, float change)
      : OtherReplica(std::move(inner)), change_(change) {}

  JobDone run(Job job) override {
    auto* end = first_of<task::EndRun>(job.tasks);
    if (end != nullptr && step() == harmed_at) {
      for (StageEnd& stage : end->ends) {
        auto other = std::make_shared<Floats>(*stage.sum);
        other->front() += change_;
        stage.sum = std::move(other);
      }
    }
    return OtherReplica::run(std::move(job));
  }

 private:
  float change_;
};

/// Four peers run chains in both directions, so each carries both stages. The first `misled` peers
/// get different wrong sums. Then a fifth peer joins.
StageRecord joined_by_a_fifth(std::size_t misled) {
  const PipelineTask task{
      .peers = 5, .stages = 2, .micro_batches = 6, .kind = PipelineKind::chimera, .steps = 80};
  Simulator::Options options = task.options();
  options.node.course.wait_for_peers = 4;
  options.scenario.faults = {fault(FaultKind::join, 1s, just(4))};
  Simulator world(options, [&](PeerNumber peer) -> std::unique_ptr<Replica> {
    auto sound = std::make_unique<StageReplica>(task.learner(peer));
    if (peer >= misled) return sound;
    return std::make_unique<Misled>(std::move(sound), 1 + static_cast<float>(peer));
  });
  StageRecord record(task.steps);
  world.watch(record);
  world.run(Time(3min));
  INFO(record.story);
  CHECK(record.newest == task.steps);
  CHECK(record.stages.size() == task.stages);
  for (const auto& [stage, replicas] : record.stages) {
    CHECK(replicas.size() == task.peers);
  }
  record.require_equal_replicas();
  return record;
}

}  // namespace

TEST_CASE("replicas that all differ have one state again after a newcomer has refused theirs",
          "[sim]") {
  const StageRecord record = joined_by_a_fifth(3);
  INFO(record.story);
  CHECK(record.facts.of<ModelRefused>() > 0);
  CHECK(record.facts.of<ModelsDiffer>() > 0);
  CHECK(record.facts.of<StageLost>() == 0);
  CHECK(record.facts.of<RolledBack>() == 0);
}

TEST_CASE("carriers do not compare their stages for a newcomer who finds two that are alike",
          "[sim]") {
  const StageRecord record = joined_by_a_fifth(0);
  INFO(record.story);
  CHECK(record.facts.of<ModelsDiffer>() == 0);
  CHECK(record.facts.of<ModelRefused>() == 0);
}

}  // namespace gv
