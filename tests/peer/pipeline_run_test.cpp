// Which peers a pipeline run accepts data from, and what ends its generation.
#include "peer/modes/pipeline_run.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/magnitude.hpp"
#include "consensus/membership/statement.hpp"
#include "consensus/message/transfer_id.hpp"
#include "peer/modes/group_sums.hpp"
#include "peer/modes/pipeline.hpp"
#include "tests/signers.hpp"

namespace gv {
namespace {

constexpr PeerId before{1};   // This peer carries the first stage.
constexpr PeerId self{2};     // This peer carries the second stage.
constexpr PeerId replica{3};  // This peer also carries the second stage.
constexpr PeerId stranger{9};

PipelineOptions two_stages() {
  PipelineOptions options{.micro_batches = 2};
  options.stages = {{.parameters = 4, .state = 4, .forward = 0, .backward = 0},
                    {.parameters = 4, .state = 4, .forward = 3, .backward = 3}};
  options.stage_seconds = {1, 1};
  return options;
}

/// A generation in which every second micro-batch passes through us.
Generation generation() {
  Generation generation{.id = {.number = 5, .proposer = before},
                        .order = {before, self, replica},
                        .shares = {1, 1, 1}};
  generation.sources = generation.order;
  generation.assignments = {{0, before, before}, {1, self, self}, {1, replica, replica}};
  return generation;
}

bool takes(PipelineRun& run, PeerId from, const PassName& name, const std::vector<float>& values) {
  Effects out;
  const TransferId id = pass_id(from, generation().key(), name);
  return run.receive(from, {id, 0, std::as_bytes(std::span(values))}, out);
}

/// The names of parts of passes. "F0.1" is the second part of micro-batch 0's forward pass.
using Passes = std::vector<std::string>;

PipelineOptions one_stage_in_two_slices() {
  PipelineOptions options{.micro_batches = 3, .group = 2};
  options.stages = {{.parameters = 4, .state = 4, .forward = 0, .backward = 0}};
  options.stages[0].slices.assign(2, {1, 1});
  options.stages[0].forward_sums = {{.always = 1, .dealt = {{0, 3}, {2, 5}}}, {.always = 4}};
  options.stage_seconds = {1};
  return options;
}

/// Two members of a group that carries the only stage of a pipeline, and the blocks in flight to
/// them.
struct GroupOfTwo {
  explicit GroupOfTwo(const PipelineOptions& options)
      : members{PipelineRun(self, 7, options), PipelineRun(replica, 7, options)} {
    Generation begun{
        .id = {.number = 5, .proposer = self}, .order = {self, replica}, .shares = {1, 1}};
    begun.sources = begun.order;
    begun.assignments = {
        {0, self, self}, {0, replica, replica}, {1, self, self}, {2, replica, replica}};
    Effects out;
    for (PipelineRun& member : members) {
      member.enter(begun);
      member.begin(0, false, out);
    }
  }

  /// Does all tasks whose input the member has. Returns the passes.
  Passes work(std::size_t member) {
    Passes passes;
    while (const std::optional<Job::Task> task = members[member].next()) {
      const auto& pass = std::get<task::StagePass>(*task);
      passes.push_back(to_string(pass.what) + "." + std::to_string(pass.part));
      if (pass.out) std::ranges::fill(*pass.out, 1.0F);
      Job job;
      job.add(*task);
      Effects out;
      members[member].done(job, out);
      for (Transfer& sent : out.transfers) on_the_way.push_back(std::move(sent));
    }
    return passes;
  }

  void deliver() {
    Effects out;
    for (const Transfer& sent : std::exchange(on_the_way, {})) {
      PipelineRun& to = members[sent.to == self ? 0 : 1];
      to.receive(sent.id.owner, {sent.id, sent.offset, sent.payload.bytes}, out);
    }
    for (Transfer& sent : out.transfers) on_the_way.push_back(std::move(sent));
  }

  /// Delivers blocks and works until nothing is in flight. Returns the passes of the second member.
  std::set<std::string> go_on() {
    std::set<std::string> passes;
    for (int turn = 0; turn < 100; ++turn) {
      deliver();
      work(0);
      for (const std::string& pass : work(1)) passes.insert(pass);
    }
    CHECK(on_the_way.empty());
    return passes;
  }

  std::array<PipelineRun, 2> members;
  std::vector<Transfer> on_the_way;
};

const std::vector<float> sound = {1, 2, 3};
const std::vector<float> unsound = {1, std::numeric_limits<float>::quiet_NaN(), 3};

}  // namespace

TEST_CASE("a pass of this run or the next comes from the neighbour that the routes name",
          "[unit]") {
  PipelineRun run(self, 7, two_stages());
  run.enter(generation());
  const PassName now{.operation = 0, .stage = 1, .micro_batch = 0};
  const PassName next{.operation = 1, .stage = 1, .micro_batch = 0};
  const auto refuses_others = [&](const PassName& name) {
    for (const PeerId other : {replica, stranger}) {
      CHECK_FALSE(takes(run, other, name, sound));
      CHECK_FALSE(takes(run, other, name, unsound));
    }
    CHECK_FALSE(run.unsound_from());
  };
  refuses_others(now);
  refuses_others(next);
  Effects out;
  run.begin(0, false, out);
  refuses_others(now);
  refuses_others(next);
  CHECK(takes(run, before, next, sound));
  CHECK(takes(run, before, now, sound));
  const PassName of_replica{.operation = 1, .stage = 1, .micro_batch = 1};
  CHECK_FALSE(takes(run, before, of_replica, sound));
}

TEST_CASE("a neighbour whose pass is not finite is named even if the run has not begun", "[unit]") {
  PipelineRun run(self, 7, two_stages());
  run.enter(generation());
  static_cast<void>(takes(run, before, {.operation = 0, .stage = 1, .micro_batch = 0}, unsound));
  CHECK(run.unsound_from() == before);
}

TEST_CASE("a member of a group is named if its summand is larger than any layer's", "[unit]") {
  PipelineOptions options = two_stages();
  options.stages[1].forward_sums = {GroupSum{.always = 4}};
  const GroupSumName name{.stage = 1, .micro_batch = 0, .backward = false, .part = 0};
  const GroupPlace place{.members = 2};
  // The larger value that the other member sends is finite, but the next layer would overflow.
  for (const float value : {2.0F, 3e38F}) {
    GroupSums ours(self, options);
    GroupSums theirs(replica, options);
    Effects out;
    for (GroupSums* sums : {&ours, &theirs}) {
      sums->enter(generation().key(), options.micro_batches);
      sums->begin(0);
    }
    std::ranges::fill(*ours.open(name, {self, replica}, place), 1.0F);
    std::ranges::fill(*theirs.open(name, {self, replica}, place), value);
    ours.ready(name, out);
    Effects of_theirs;
    theirs.ready(name, of_theirs);
    REQUIRE_FALSE(of_theirs.transfers.empty());
    for (const Transfer& sent : of_theirs.transfers) {
      ours.receive(replica, {sent.id, sent.offset, sent.payload.bytes}, out);
    }
    CHECK(ours.unsound_from().has_value() == (value > largest_gradient));
  }
}

TEST_CASE("a group draws the batch of the next pass in advance", "[unit]") {
  GroupOfTwo group(one_stage_in_two_slices());
  // The first member has its own part at once. It sends the other member that member's part of each
  // batch: three values, and one value that every member gets.
  CHECK(group.work(0) == Passes{"F0.0", "F0.1", "F1.0"});
  CHECK(std::ranges::count(group.on_the_way, true, &Transfer::can_wait) == 2);
  for (const Transfer& sent : group.on_the_way) {
    CHECK(sent.to == replica);
    if (sent.can_wait) CHECK(sent.payload.bytes.size() == 4 * sizeof(float));
  }
  CHECK(group.work(1) == Passes{"F0.0", "F1.0"});
  CHECK(group.go_on().contains("B2.0"));
  CHECK(group.members[0].drawn() == 3);
  CHECK(group.members[1].drawn() == 0);
}

TEST_CASE("a group sums whole batches in advance, too", "[unit]") {
  PipelineOptions options = one_stage_in_two_slices();
  options.stages[0].forward_sums = {{.always = 4}, {.always = 4}};
  GroupOfTwo group(options);
  CHECK(group.work(0) == Passes{"F0.0", "F1.0"});
  CHECK(group.work(1) == Passes{"F0.0", "F1.0"});
  CHECK(group.go_on().contains("B2.0"));
  CHECK(group.members[0].drawn() == 3);
}

TEST_CASE("a pass whose batch is under way does not hold up the passes behind it", "[unit]") {
  PipelineOptions options = one_stage_in_two_slices();
  options.kind = PipelineKind::gpipe;
  GroupOfTwo group(options);
  CHECK(group.work(0) == Passes{"F0.0", "F0.1", "F1.0", "F1.1"});
  // Withhold the batch of the second pass.
  const auto last =
      std::ranges::find_if(group.on_the_way.rbegin(), group.on_the_way.rend(), &Transfer::can_wait);
  const Transfer late = *last;
  group.on_the_way.erase(std::next(last).base());
  const std::set<std::string> before = group.go_on();
  CHECK_FALSE(before.contains("F1.1"));
  CHECK(before.contains("B0.0"));
  group.on_the_way.push_back(late);
  CHECK(group.go_on().contains("B2.0"));
}

TEST_CASE("a test of the model makes no sums of a batch's statistics", "[unit]") {
  PipelineOptions options = two_stages();
  options.stages[1].forward_sums = {
      {.always = 4}, {.always = 2, .is_of_batch = true}, {.always = 6}};
  const GroupSums sums(self, options);
  CHECK(sums.sums_of(1, 1, false) == options.stages[1].forward_sums);
  CHECK(sums.sums_of(1, 2, false) ==
        std::vector<GroupSum>{{.always = 4}, {.always = 6}});  // The run has two micro-batches.
}

TEST_CASE("a generation ends if one that leaves is gone before it has sent its stage", "[unit]") {
  constexpr std::uint64_t layout = 5;
  const ModelVersion version{.step = 7, .samples = 14, .lineage = 7};
  PipelineOptions options = two_stages();
  options.resumed = version;
  options.resumed_parts = {1};
  const CourseOptions course{.run_seed = 1, .steps = 1000, .layout_hash = layout};
  PipelineMode mode(self, 1, course, options, signer_of(self), Rng(1));
  Membership members({.id = self, .name = "us", .address = "virtual:0", .layout_hash = layout},
                     {before, self, replica}, {}, signer_of(self), Rng(1));
  Effects out;
  std::vector<Job> jobs;
  for (const PeerId peer : {before, replica}) {
    PushPull table{
        .members = {{.id = peer, .name = "peer", .address = "virtual:1", .layout_hash = layout}}};
    restate(table.members.front(), signer_of(peer));
    members.receive(Time{}, peer, table, out);
  }
  mode.start(Time{}, version.step, false);
  mode.tick(Time{}, members, out, jobs);
  const GenerationId ballot{.number = 100, .proposer = replica};
  mode.receive(Time{}, replica, Propose{ballot}, members, out);
  // The first peer leaves, and this one takes over its stage.
  Generation install{
      .id = ballot, .order = {self, replica}, .shares = {1000, 1000}, .version = version};
  install.sources = install.order;
  install.assignments = {{0, self, before}, {1, replica, replica}};
  mode.receive(Time{}, replica, installed(install), members, out);
  mode.tick(Time{}, members, out, jobs);
  REQUIRE(mode.generations()->current() != nullptr);
  CHECK(std::ranges::any_of(out.messages, [](const Outgoing& sent) {
    return sent.to == before && std::holds_alternative<StateRequest>(sent.message);
  }));
  mode.peer_gone(Time{}, before, out);
  CHECK(mode.generations()->current() == nullptr);
}

}  // namespace gv
