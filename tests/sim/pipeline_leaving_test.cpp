// Peers of a pipeline that leave at any moment, alone or all at once, or die while they leave.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "sim/virtual/pipeline_invariants.hpp"
#include "tests/sim/pipeline_run.hpp"

namespace gv {

using namespace std::chrono_literals;

namespace {

/// Records the step that each peer has saved last.
class Saves : public Watcher {
 public:
  void on_job_done(const Simulator&, PeerNumber peer, const JobDone& done) override {
    if (first_of<task::Save>(done.job.tasks) != nullptr) steps[peer] = done.step;
  }
  std::map<PeerNumber, std::uint64_t> steps;
};

}  // namespace

TEST_CASE("peers that take stages over from one that dies as it leaves go on", "[sim]") {
  int rollbacks = 0;
  for (int moment = 0; moment < 120; ++moment) {
    const PipelineTask task{.peers = 3, .stages = 4, .micro_batches = 6, .steps = 60};
    Simulator::Options options = task.options();
    options.seed = static_cast<std::uint64_t>(moment);
    // The leaving peer is the fastest, so both others take over stages.
    const auto who = static_cast<PeerNumber>(moment % 3);
    options.scenario.speeds = {{.peers = PeerSet::everyone(), .factor = 0.4},
                               {.peers = just(who), .factor = 1}};
    const Duration leaves = 4s + moment % 7 * 11ms;
    options.scenario.links = {every_link({.latency = 2ms})};
    options.scenario.faults = {fault(FaultKind::leave, leaves, just(who)),
                               fault(FaultKind::kill, leaves + moment / 3 * 1ms, just(who))};
    Simulator world(options, task.workloads());
    StageRecord record(task.steps);
    PipelineInvariants invariants;
    world.watch(record);
    world.watch(invariants);
    world.run(Time(5min));
    INFO("moment " << moment << "\n" << record.story);
    INFO((invariants.violation() ? invariants.violation()->what : ""));
    REQUIRE_FALSE(invariants.violation());
    REQUIRE(record.newest == task.steps);
    rollbacks += record.facts.of<RolledBack>() > 0;
  }
  CHECK(rollbacks > 5);  // In the other worlds the stages were handed over in time.
}

TEST_CASE("peers that all leave at once save one step", "[sim]") {
  std::set<std::uint64_t> of_all;
  for (int moment = 0; moment < 300; ++moment) {
    const PipelineTask task{.peers = 2, .stages = 2, .micro_batches = 2, .steps = 100000};
    Simulator::Options options = task.options();
    options.scenario.links = {every_link({.latency = 2ms})};
    options.scenario.faults = {
        fault(FaultKind::leave, Duration(2s) + moment * 100us, PeerSet::everyone())};
    Simulator world(options, task.workloads());
    Saves saves;
    world.watch(saves);
    world.run(Time(10s));
    INFO("moment " << moment);
    REQUIRE(world.all_ended());
    REQUIRE(saves.steps.size() == task.peers);
    REQUIRE(saves.steps.at(0) == saves.steps.at(1));
    of_all.insert(saves.steps.at(0));
  }
  CHECK(of_all.size() > 1);
}

TEST_CASE("a peer that leaves during a run of many updates saves none of them", "[sim]") {
  PipelineTask task{.peers = 1, .stages = 2, .micro_batches = 6, .kind = PipelineKind::pipedream};
  for (int moment = 0; moment < 20; ++moment) {
    INFO("moment " << moment);
    task.steps = 1000;
    Simulator::Options options = task.options();
    options.scenario.faults = {fault(FaultKind::leave, Duration(2s) + moment * 3ms, just(0))};
    Simulator world(options, task.workloads());
    Saves saves;
    world.watch(saves);
    world.run(Time(1min));
    REQUIRE(saves.steps.contains(0));
    task.steps = saves.steps.at(0);
    Simulator to_there(task.options(), task.workloads());
    to_there.run(Time(1min));
    for (const std::size_t stage : {0, 1}) {
      REQUIRE(world.peer(0).work->part(stage) == to_there.peer(0).work->part(stage));
    }
  }
}

}  // namespace gv
