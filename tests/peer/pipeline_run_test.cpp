// What a run of a pipeline takes from whom, and what ends its generation.
#include "peer/modes/pipeline_run.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
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

constexpr PeerId before{1};   // Carries the first stage.
constexpr PeerId self{2};     // Carries the second.
constexpr PeerId replica{3};  // Carries it, too.
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
  // Of the other member's values the second are finite, but the next layer would overflow.
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
