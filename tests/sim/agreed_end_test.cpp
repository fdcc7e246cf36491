// When a pipeline's time is over, all its peers end at the same step, whatever happens to some of
// them at that moment.
#include "peer/modes/agreed_end.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "base/fingerprint.hpp"
#include "consensus/generation/planner.hpp"
#include "consensus/membership/membership.hpp"
#include "consensus/membership/statement.hpp"
#include "peer/modes/pipeline.hpp"
#include "peer/modes/rebalance_policy.hpp"
#include "peer/modes/replica_planner.hpp"
#include "peer/modes/stage_planner.hpp"
#include "tests/signers.hpp"
#include "tests/sim/pipeline_run.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// Records what the peers of a pipeline save last, and when they end.
class StageEndings : public Watcher {
 public:
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override {
    if (first_of<task::Save>(done.job.tasks) == nullptr) return;
    steps[peer] = done.step;
    ran[peer] = world.peer(peer).work->swarm_note().ran;
    for (const std::uint32_t stage : world.peer(peer).node->as<PipelineMode>()->stages()) {
      stages[stage].insert(fingerprint(world.peer(peer).work->stage(stage)));
    }
  }
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override {
    for (const Fact& fact : effects.facts) {
      if (std::holds_alternative<BudgetDone>(fact)) done.insert_or_assign(peer, world.now());
    }
  }

  std::map<PeerNumber, std::uint64_t> steps;
  std::map<PeerNumber, Duration> ran;
  std::map<PeerNumber, Time> done;
  std::map<std::uint32_t, std::set<std::uint64_t>> stages;  ///< Fingerprints of each stage.
};

/// Options for the peers of a pipeline that may train for ten seconds.
Simulator::Options ten_seconds(const PipelineTask& task) {
  Simulator::Options options = task.options();
  options.node.course.linger = 20s;
  options.node.course.work = {.budget = task.steps * task.micro_batches * 4,
                              .batch = 4,
                              .data = 240,
                              .all_data = 240 * task.peers,
                              .weigh_max = 1,
                              .wall = 10s};
  return options;
}

/// Runs the world to its end, which must come at the same step for all `peers`. Returns the result.
StageEndings ended(const PipelineTask& task, const Simulator::Options& options,
                   const std::set<PeerNumber>& peers) {
  Simulator world(options, task.workloads());
  StageEndings endings;
  world.watch(endings);
  run_to_the_end(world, Time(2min));
  for (const PeerNumber peer : peers) {
    INFO("peer-" << peer);
    REQUIRE(endings.done.contains(peer));
    CHECK(endings.steps.at(peer) == endings.steps.at(*peers.begin()));
    CHECK(endings.done.at(peer) > Time(9s));
    CHECK(endings.done.at(peer) < Time(13s));
  }
  CHECK(endings.stages.size() == task.stages);
  for (const auto& [stage, bits] : endings.stages) CHECK(bits.size() == 1);
  return endings;
}

}  // namespace

TEST_CASE("a pipeline whose time is over ends at one step with every stage", "[sim]") {
  const PipelineTask task{.peers = 4, .stages = 3, .micro_batches = 6, .steps = 100'000};
  Simulator::Options options = ten_seconds(task);
  SECTION("without faults") {
    const StageEndings endings = ended(task, options, {0, 1, 2, 3});
    CHECK(endings.steps.at(0) > 20);
    CHECK(endings.steps.at(0) < 10'000);
    // A resumed peer continues to count from its saved training time.
    CHECK(endings.ran.at(0) > 9s);
  }
  SECTION("also with one that has come late") {
    options.node.course.wait_for_peers = 3;
    options.scenario.faults = {fault(FaultKind::join, 6s, just(3))};
    ended(task, options, {0, 1, 2, 3});
  }
  SECTION("also if one dies just then") {
    const int tenths = GENERATE(range(96, 106));
    INFO("killed at " << tenths / 10.0 << " s");
    options.scenario.faults = {fault(FaultKind::kill, tenths * 100ms, just(0))};
    ended(task, options, {1, 2, 3});
  }
}

TEST_CASE("a pipeline whose budget is used up first ends with it", "[sim]") {
  const PipelineTask task{.peers = 4, .stages = 2, .micro_batches = 6, .steps = 20};
  Simulator::Options options = ten_seconds(task);
  options.node.course.work.wall = 10min;
  Simulator world(options, task.workloads());
  StageEndings endings;
  world.watch(endings);
  world.run(Time(2min));
  REQUIRE(world.all_ended());
  for (PeerNumber peer = 0; peer < task.peers; ++peer) CHECK(endings.steps.at(peer) == 20);
}

TEST_CASE("a checkpoint of stages says for how long the swarm has trained", "[unit]") {
  const PipelineTask task{.peers = 2, .stages = 2};
  StageReplica replica(task.learner(0));
  Job job;
  job.add(task::LoadStages{.held = {{.stage = 1, .slices = {}}}, .states = {}});
  job.add(task::FollowSwarm{0.5, 1, {.samples = 480, .ran = 7s}});
  replica.run(std::move(job));
  const std::vector<ReplicaPart> parts = replica.parts();
  REQUIRE(parts.size() == 1);
  StageReplica resumed(task.learner(0));
  REQUIRE(resumed.restore(parts.front()).empty());
  CHECK(resumed.swarm_note().samples == 480);
  CHECK(resumed.swarm_note().ran == 7s);
}

TEST_CASE("more than a third of the peers that have made steps end a run", "[unit]") {
  const ModelVersion old{.step = 3, .samples = 30, .lineage = 7};
  const ModelVersion version{.step = 4, .samples = 40, .lineage = 8};
  Answers answers;
  for (std::uint64_t peer = 1; peer <= 6; ++peer) answers[PeerId(peer)].version = version;
  answers[PeerId(1)].ends = answers[PeerId(2)].ends = true;
  CHECK_FALSE(is_end_agreed(answers, version));
  answers[PeerId(3)].ends = true;
  CHECK(is_end_agreed(answers, version));
  // The training time of a peer that is behind counts as much as that of the others.
  answers[PeerId(1)].version = answers[PeerId(2)].version = old;
  CHECK(is_end_agreed(answers, version));
  // Newcomers do not count in the decision.
  answers[PeerId(1)].version = answers[PeerId(2)].version = {};
  CHECK_FALSE(is_end_agreed(answers, version));
  // A peer that has even one of its stages counts in the decision.
  answers[PeerId(1)].holdings = {{.stage = 0, .carried = true, .version = version}};
  CHECK(is_end_agreed(answers, version));
}

TEST_CASE("the only peer that has a version neither ends a run nor keeps it from ending",
          "[unit]") {
  const bool says = GENERATE(false, true);
  const ModelVersion claimed{.step = 9, .samples = 90, .lineage = 99};
  Answers answers;
  for (std::uint64_t peer = 1; peer <= 3; ++peer) {
    answers[PeerId(peer)] = {.version = {.step = 4, .samples = 40, .lineage = 8}, .ends = !says};
  }
  answers[PeerId(4)] = {.version = claimed, .ends = says};
  CHECK(is_end_agreed(answers, claimed) == !says);
}

namespace {

constexpr PeerId self{1};
constexpr PeerId hostile{2};
constexpr PeerId third{3};

/// One peer of a pipeline that may train for ten seconds, and its worker.
class OnePeer {
 public:
  OnePeer() { mode_.start(now_, 0, false); }

  /// Trains alone for at least five runs and at least until `end`.
  void train_until(Time end) {
    for (int tick = 0; tick < 10'000 && (now_ < end || mode_.step() < 5); ++tick) {
      std::vector<Job> jobs;
      mode_.tick(now_, members_, out_, jobs);
      now_ += 10ms;
      for (Job& job : jobs) {
        JobDone done = replica_.run(std::move(job));
        done.busy = 10ms;
        mode_.complete(now_, std::move(done), members_, out_);
      }
    }
    REQUIRE(mode_.step() >= 5);
    REQUIRE(now_ >= end);
    REQUIRE(now_ < end + 5s);
  }

  /// Peer `peer` says that it has trained for `ran_ms` milliseconds.
  void meet(PeerId peer, std::uint64_t ran_ms) {
    now_ += 300ms;
    PushPull table{.members = {{.id = peer,
                                .name = "peer",
                                .address = "virtual:1",
                                .layout_hash = course().layout_hash}}};
    Progress& progress = table.members.front().progress;
    progress = {.step = 7, .phase = Phase::training, .work = WorkDone{.ran_ms = ran_ms}};
    restate(table.members.front(), signer_of(peer));
    members_.receive(now_, peer, table, out_);
    std::vector<Job> jobs;
    mode_.tick(now_, members_, out_, jobs);
  }

  /// The hostile peer calls a ballot and installs a generation at this version. We carry the first
  /// stage and get it from `source`. The third peer gets the second stage from `second`. Returns
  /// true if we begin the generation.
  bool begins(const ModelVersion& version, bool ends, PeerId source, PeerId second = hostile) {
    Generation install{.order = {self, hostile, third},
                       .sources = {self, hostile, third},
                       .shares = {1000, 1000, 1000},
                       .version = version,
                       .ends = ends};
    install.assignments = {{0, self, source}, {1, hostile, hostile}, {1, third, second}};
    return begins(install);
  }

  /// The hostile peer installs a generation without the third peer, in which we get our stage from
  /// the hostile peer. Returns true if we begin it.
  bool begins_with_hostile_alone(const ModelVersion& version) {
    Generation install{.order = {self, hostile},
                       .sources = {self, hostile},
                       .shares = {1000, 1000},
                       .version = version};
    install.assignments = {{0, self, hostile}, {1, hostile, hostile}};
    return begins(install);
  }

  bool begins(Generation install) {
    install.id = {.number = ++ballots_, .proposer = hostile};
    mode_.receive(now_, hostile, Propose{install.id}, members_, out_);
    mode_.receive(now_, hostile, installed(install), members_, out_);
    return mode_.generations()->current() != nullptr;
  }

  /// How often our peer has told `peer` to end a generation and blamed the hostile peer for it.
  std::size_t ended_for(PeerId peer) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(out_.messages, [peer](const Outgoing& sent) {
          const auto* end = std::get_if<EndGeneration>(&sent.message);
          return sent.to == peer && end != nullptr && end->blamed == std::vector{hostile};
        }));
  }

  const ModelVersion& version() const { return mode_.generations()->agreement().version(); }
  Phase phase() const { return mode_.course().phase(); }
  /// How often our peer has reported an unsound message of the hostile peer.
  std::size_t told_unsound() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        out_.facts, [](const Fact& fact) { return std::holds_alternative<UnsoundMessage>(fact); }));
  }

 private:
  const CourseOptions& course() const { return options_.node.course; }

  PipelineTask task_{.peers = 1, .stages = 2, .steps = 100'000};
  Simulator::Options options_ = ten_seconds(task_);
  PipelineMode mode_{self, 1, course(), options_.node.pipeline, signer_of(self), Rng(1)};
  Membership members_{
      {.id = self, .name = "us", .address = "virtual:0", .layout_hash = course().layout_hash},
      {self, hostile, third},
      {},
      signer_of(self),
      Rng(1)};
  StageReplica replica_{task_.learner(0)};
  std::uint64_t ballots_ = 100;
  Time now_{};
  Effects out_;
};

}  // namespace

TEST_CASE("no proposer ends a pipeline whose time is not over by the clock of its peers",
          "[unit]") {
  OnePeer peer;
  SECTION("long before the end") {
    peer.train_until(Time(3s));
    peer.meet(hostile, 3000);
    CHECK_FALSE(peer.begins(peer.version(), true, self));
    CHECK(peer.told_unsound() == 1);
  }
  SECTION("but clocks may differ a little") {
    peer.train_until(Time(8s));
    peer.meet(hostile, 8000);
    CHECK(peer.begins(peer.version(), true, self));
    CHECK(peer.told_unsound() == 0);
  }
}

TEST_CASE("no proposer makes a peer train on when the time of the run is over", "[unit]") {
  OnePeer peer;
  peer.train_until(Time(14s));
  REQUIRE(peer.phase() == Phase::done);
  peer.meet(hostile, 10'000);
  peer.meet(third, 10'000);
  CHECK_FALSE(peer.begins(peer.version(), false, self));
  CHECK(peer.phase() == Phase::done);
  CHECK(peer.told_unsound() == 1);
}

TEST_CASE("a sound peer may decide late, or see less of a target, and is only refused", "[unit]") {
  ReplicaPlanner planner({});
  const Generation goes_on{.ends = false};
  planner.set_view(EndView::over, 3);
  CHECK(planner.contradicts_end(goes_on));
  CHECK_FALSE(planner.problem_of_end(goes_on, true).empty());
  // An honest proposer may go on if our answer to the ballot did not report the end.
  CHECK(planner.problem_of_end(goes_on, false).empty());
  planner.set_view(EndView::reached, 3);
  CHECK(planner.contradicts_end(goes_on));
  CHECK(planner.problem_of_end(goes_on, true).empty());
}

TEST_CASE("a peer that has just come ends with the others by their clocks", "[unit]") {
  const std::uint64_t ran_ms = GENERATE(2000, 9000);
  OnePeer peer;
  peer.meet(hostile, 9000);
  peer.meet(third, ran_ms);
  const ModelVersion theirs{.step = 7, .samples = 7 * 24, .lineage = 7};
  CHECK(peer.begins(theirs, true, hostile) == (ran_ms == 9000));
}

TEST_CASE("no peer of a pipeline goes on from a version that its own runs do not account for",
          "[unit]") {
  OnePeer peer;
  peer.train_until(Time(3s));
  peer.meet(hostile, 3000);
  const std::uint64_t ahead = GENERATE(1, 1000, 100'000);
  ModelVersion claimed = peer.version();
  claimed.step += ahead;
  claimed.samples += ahead * 24;
  claimed.lineage = 99;
  CHECK(peer.begins(claimed, false, hostile) == (ahead == 1));
}

TEST_CASE("a peer of a pipeline goes on from a version that more than a third of the peers have",
          "[unit]") {
  OnePeer peer;
  peer.train_until(Time(3s));
  peer.meet(hostile, 3000);
  const PeerId second = GENERATE(hostile, third);
  ModelVersion version = peer.version();
  version.samples += (100'000 - version.step) * 24;
  version.step = 100'000;
  version.lineage = 99;
  CHECK(peer.begins(version, false, hostile, second) == (second == third));
}

TEST_CASE("a proposer that leaves peers out does not become more than a third of them", "[unit]") {
  OnePeer peer;
  peer.train_until(Time(3s));
  peer.meet(hostile, 3000);
  peer.meet(third, 3000);
  ModelVersion version = peer.version();
  ++version.step;
  version.samples += 24;
  version.lineage = 99;
  CHECK(peer.begins_with_hostile_alone(version));
  version.step = 100'000;
  version.samples = 100'000 * 24;
  CHECK_FALSE(peer.begins_with_hostile_alone(version));
}

TEST_CASE("no peer of a pipeline becomes the source of a part that it has not promised", "[unit]") {
  OnePeer peer;
  peer.train_until(Time(3s));
  peer.meet(hostile, 3000);
  const PeerId second = GENERATE(hostile, self);
  ModelVersion next = peer.version();
  ++next.step;
  next.samples += 24;
  next.lineage = 99;
  CHECK(peer.begins(next, false, hostile, second) == (second == hostile));
  CHECK(peer.told_unsound() == (second == self));
  // The third peer cannot know that the source lacks the state.
  CHECK(peer.ended_for(third) == (second == self));
}

TEST_CASE("a peer of a pipeline that is left out and named as a source accuses the proposer",
          "[unit]") {
  OnePeer peer;
  peer.train_until(Time(3s));
  peer.meet(hostile, 3000);
  Generation install{.order = {hostile, third},
                     .sources = {hostile, third},
                     .shares = {1000, 1000},
                     .version = peer.version()};
  install.assignments = {{0, hostile, self}, {1, third, third}};
  CHECK_FALSE(peer.begins(install));
  CHECK(peer.told_unsound() == 1);
}

TEST_CASE("a plan leaves out versions that no peer can have reached unless there is no other",
          "[unit]") {
  const ModelVersion seventh{.step = 7, .samples = 56, .lineage = 7};
  const ModelVersion claimed{.step = 1000, .samples = 8000, .lineage = 99};
  StagePlanner planner({1, 1}, 8, {});
  Answers answers;
  answers[self] = {.version = seventh, .holdings = {{0, true, seventh}}};
  answers[third] = {.version = seventh, .holdings = {{1, true, seventh}}};
  answers[hostile] = {.version = claimed, .holdings = {{0, true, claimed}, {1, true, claimed}}};
  CHECK(planner.plan(answers, nullptr)->version == claimed);
  planner.believe(ModelVersion{.step = 9, .samples = 72});
  CHECK(planner.plan(answers, nullptr)->version == seventh);
  // Without the second stage, no other version is complete.
  answers.erase(third);
  CHECK(planner.plan(answers, nullptr)->version == claimed);
}

TEST_CASE("a final model is replaced only by a newer one that more than a third have", "[unit]") {
  const ModelVersion ours{.step = 10, .samples = 11, .lineage = 7};
  const ModelVersion claimed{.step = 10, .samples = 1000, .lineage = 99};
  ReplicaPlanner planner({});
  planner.set_final_step(10);
  planner.set_view(EndView::open, 3);
  planner.note_sharers(ours, 2);
  const Answers answers{
      {self, {.version = ours}}, {third, {.version = ours}}, {hostile, {.version = claimed}}};
  CHECK(planner.plan(answers, nullptr)->version == ours);
  // The hostile peer proposes a version that only it has.
  Generation start{
      .order = {self, third, hostile}, .sources = {hostile, hostile, hostile}, .version = claimed};
  CHECK_FALSE(planner.can_begin(start, self, {.version = ours}));
  CHECK(planner.can_begin(start, self, {.version = {.step = 9, .samples = 9, .lineage = 7}}));
  // Leaving out a peer does not make the hostile peer more than a third of all peers.
  const Generation pair{
      .order = {self, hostile}, .sources = {hostile, hostile}, .version = claimed};
  CHECK_FALSE(planner.can_begin(pair, self, {.version = ours}));
  const Answers two{{self, {.version = ours}}, {hostile, {.version = claimed}}};
  CHECK(planner.plan(two, nullptr)->version == ours);
  start.sources[1] = third;
  CHECK(planner.can_begin(start, self, {.version = ours}));
  // A final model is not given up for a version with fewer samples.
  start.version.samples = 10;
  CHECK_FALSE(planner.can_begin(start, self, {.version = ours}));
}

TEST_CASE("a final model that few have is replaced by any newer one", "[unit]") {
  const ModelVersion ours{.step = 10, .samples = 11, .lineage = 7};
  ReplicaPlanner planner({});
  planner.set_final_step(10);
  planner.set_view(EndView::open, 3);
  Generation start{.order = {self, third, hostile},
                   .sources = {hostile, hostile, hostile},
                   .version = {.step = 10, .samples = 12, .lineage = 8}};
  CHECK(planner.can_begin(start, self, {.version = ours}));
  start.version.samples = 10;
  CHECK_FALSE(planner.can_begin(start, self, {.version = ours}));
  // A peer whose run is not over does not give up its work for an older version that only one peer
  // has.
  const ModelVersion early{.step = 9, .samples = 11, .lineage = 7};
  CHECK_FALSE(planner.can_begin(start, self, {.version = early}));
  // An older version may belong to peers whose run is not over.
  start.sources[1] = third;
  CHECK_FALSE(planner.can_begin(start, self, {.version = ours}));
}

TEST_CASE("the first peer that is left in a generation asks lost ones whether they are back",
          "[unit]") {
  constexpr PeerId gone{1}, first{2}, lost{3};
  const ReplicaPlanner planner({});
  Agreement agreement(first, 0, {}, signer_of(first));
  agreement.set_candidates(Time(0s), {gone, first, lost});
  Effects out;
  const auto hear = [&](const Message& message) {
    agreement.receive(Time(1s), gone, message, planner, out);
  };
  const GenerationId ballot{.number = 1, .proposer = gone};
  hear(EndGeneration{.blamed = {lost}});
  hear(Propose{ballot});
  hear(installed({.id = ballot,
                  .order = {gone, first},
                  .sources = {gone, first},
                  .shares = {1, 1},
                  .version = agreement.version()}));
  REQUIRE(agreement.generation() != nullptr);
  REQUIRE(agreement.is_blamed(lost));
  RebalancePolicy policy(first);
  policy.enter_generation(Time(1s), 2);
  out = {};
  policy.newcomers_wait(Time(3s), agreement, {gone, first, lost}, out);
  CHECK(out.messages.empty());
  policy.newcomers_wait(Time(4s), agreement, {first, lost}, out);
  policy.newcomers_wait(Time(5s), agreement, {first, lost}, out);
  REQUIRE(out.messages.size() == 1);
  CHECK(out.messages.front().to == lost);
}

TEST_CASE("peers of a run without a common end do not repeat that a hostile one reports an end",
          "[unit]") {
  const ReplicaPlanner planner({});
  const auto repeats = [&](const SwarmWorkOptions& options) {
    Agreement agreement(PeerId{1}, 0, {}, signer_of(PeerId{1}));
    agreement.set_candidates(Time(0s), {PeerId{1}, PeerId{2}});
    AgreedEnd end;
    end.enter({.version = {.step = 4}, .ends = true}, SwarmWork(PeerId{1}, options), agreement);
    Effects out;
    agreement.receive(Time(1s), PeerId{2}, Message(Propose{.ballot = {1, 0, PeerId{2}}}), planner,
                      out);
    REQUIRE(out.messages.size() == 1);
    return std::get<Promise>(out.messages.front().message).answer.ends;
  };
  CHECK_FALSE(repeats({}));
  CHECK(repeats({.budget = 100}));
}

}  // namespace gv
