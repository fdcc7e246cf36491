// Tests which data a pipeline run accepts and keeps, what ends its generation, and that copies of
// it are independent.
#include "peer/modes/pipeline_run.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/magnitude.hpp"
#include "consensus/allreduce/reduce_plan.hpp"
#include "consensus/membership/statement.hpp"
#include "consensus/message/transfer_id.hpp"
#include "peer/modes/early_blocks.hpp"
#include "peer/modes/group_sums.hpp"
#include "peer/modes/pipeline.hpp"
#include "tests/consensus/value_swarm.hpp"
#include "tests/peer/pipeline_world.hpp"
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

/// A generation of groups of two that carry the only stage of a pipeline. `order` lists the members
/// of each group one after another.
Generation groups_of_two(const std::vector<PeerId>& order) {
  Generation generation{.id = {.number = 5, .proposer = order.front()}, .order = order};
  generation.sources = order;
  generation.shares.assign(order.size(), 1);
  for (std::uint32_t rank = 0; rank < order.size(); ++rank) {
    generation.assignments.push_back({0, order[rank], order[rank]});
    generation.assignments.push_back({1 + rank % 2, order[rank], order[rank]});
  }
  return generation;
}

/// Two members of a group that carries the only stage of a pipeline, and the blocks in flight to
/// them.
struct GroupOfTwo {
  explicit GroupOfTwo(const PipelineOptions& options)
      : members{PipelineRun(self, run_seed, options), PipelineRun(replica, run_seed, options)} {
    Effects out;
    for (PipelineRun& member : members) {
      member.enter(groups_of_two({self, replica}));
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

/// This peer in mode `pipeline`, after it has answered a ballot of its replica.
struct PeerInBallot {
  explicit PeerInBallot(PipelineOptions options)
      : members({.id = self, .name = "us", .address = "virtual:0", .layout_hash = layout},
                {before, self, replica}, {}, signer_of(self), Rng(1)),
        mode(self, 1, {.run_seed = 1, .steps = 1000, .layout_hash = layout}, resumed(options),
             signer_of(self), Rng(1)) {
    for (const PeerId peer : {before, replica}) {
      PushPull table{
          .members = {{.id = peer, .name = "peer", .address = "virtual:1", .layout_hash = layout}}};
      restate(table.members.front(), signer_of(peer));
      members.receive(Time{}, peer, table, out);
    }
    mode.start(Time{}, version.step, false);
    mode.tick(Time{}, members, out, jobs);
    mode.receive(Time{}, replica, Propose{ballot}, members, out);
  }

  static PipelineOptions& resumed(PipelineOptions& options) {
    options.resumed = version;
    options.resumed_parts = {1};
    return options;
  }

  static constexpr std::uint64_t layout = 5;
  static constexpr ModelVersion version{.step = 7, .samples = 14, .lineage = 7};
  static constexpr GenerationId ballot{.number = 100, .proposer = replica};

  Effects out;
  std::vector<Job> jobs;
  Membership members;
  PipelineMode mode;
};

/// Number of parameters of a stage. Half of them need more room than a pipeline has for early
/// blocks.
constexpr std::size_t large_stage = std::size_t{200} << 20;
constexpr std::size_t half_of_large_stage = large_stage / 2 * sizeof(float);
static_assert(half_of_large_stage > pipeline_held_max);

PipelineOptions large_second_stage() {
  PipelineOptions options = two_stages();
  options.consensus = StageConsensus::gossip;
  options.stages[1].parameters = options.stages[1].state = large_stage;
  return options;
}

/// Passes at least `least` bytes in pieces of the first sum of `stage` from the replica to
/// `take(block)`. Returns the number of bytes if all pieces are taken. The pieces share their
/// memory, so they take up almost none.
std::optional<std::size_t> send_pieces(std::size_t least, std::uint64_t generation,
                                       std::uint32_t stage, auto take) {
  const auto values = std::make_shared<const std::vector<std::byte>>(block_bytes_usual);
  std::size_t bytes = 0;
  for (std::size_t segment = 0; bytes < least; ++segment) {
    const TransferId id = piece_id(replica, generation, {.segment = segment}, stage);
    if (!take(Block{id, 0, *values, values})) return std::nullopt;
    bytes += values->size();
  }
  return bytes;
}

const std::vector<float> sound = {1, 2, 3};
const std::vector<float> unsound = {1, std::numeric_limits<float>::quiet_NaN(), 3};

}  // namespace

TEST_CASE("a pass of this run or the next comes from the neighbour that the routes name",
          "[unit]") {
  PipelineRun run(self, run_seed, two_stages());
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
  PipelineRun run(self, run_seed, two_stages());
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
  PeerInBallot peer(two_stages());
  // The first peer leaves, and this one takes over its stage.
  Generation install{.id = PeerInBallot::ballot,
                     .order = {self, replica},
                     .shares = {1000, 1000},
                     .version = PeerInBallot::version};
  install.sources = install.order;
  install.assignments = {{0, self, before}, {1, replica, replica}};
  peer.mode.receive(Time{}, replica, installed(install), peer.members, peer.out);
  peer.mode.tick(Time{}, peer.members, peer.out, peer.jobs);
  REQUIRE(peer.mode.generations()->current() != nullptr);
  CHECK(std::ranges::any_of(peer.out.messages, [](const Outgoing& sent) {
    return sent.to == before && std::holds_alternative<StateRequest>(sent.message);
  }));
  peer.mode.peer_gone(Time{}, before, peer.out);
  CHECK(peer.mode.generations()->current() == nullptr);
}

TEST_CASE("a newcomer keeps the pieces of a large stage until its run begins", "[unit]") {
  PipelineRun run(self, run_seed, large_second_stage());
  run.enter(generation());
  Effects out;
  // In gossip, the partner sends half of its parameters as soon as its own run begins.
  const auto bytes =
      send_pieces(half_of_large_stage, generation().key(), 1,
                  [&](const Block& block) { return run.receive(replica, block, out); });
  REQUIRE(bytes);
  CHECK(run.held_bytes() == *bytes);
}

TEST_CASE("a member of a group keeps the pieces of a large sum until it makes the sum", "[unit]") {
  PipelineOptions options = one_stage_in_two_slices();
  options.stages[0].forward_sums = {{.always = large_stage}};
  const Generation begun = groups_of_two({self, replica});
  PipelineRun run(self, run_seed, options);
  run.enter(begun);
  Effects out;
  // The ids of group sums follow those of the three parts.
  const auto bytes = send_pieces(half_of_large_stage, begun.key(), 3, [&](const Block& block) {
    return run.receive(replica, block, out);
  });
  REQUIRE(bytes);
  CHECK(run.held_bytes() == *bytes);
}

TEST_CASE("a peer keeps the pieces of a large stage until it learns what a ballot decided",
          "[unit]") {
  PeerInBallot peer(large_second_stage());
  const auto bytes =
      send_pieces(half_of_large_stage, key_of(PeerInBallot::ballot), 1, [&](const Block& block) {
        peer.mode.receive_block(Time{}, replica, block, peer.out);
        return true;
      });
  CHECK(peer.mode.held_bytes() == bytes.value());
}

TEST_CASE("a sender of early blocks takes no room from the others", "[unit]") {
  const std::vector<std::byte> bytes(100);
  const auto block_of = [&](std::uint64_t session) {
    return Block{pass_id(self, session, {}), 0, bytes};
  };
  EarlyBlocks held(2 * (bytes.size() + sizeof(EarlyBlocks::Held)));
  CHECK(held.keep(self, block_of(1)));
  CHECK(held.keep(self, block_of(2)));
  CHECK_FALSE(held.keep(self, block_of(2)));
  CHECK(held.keep(replica, block_of(1)));
  CHECK(held.bytes() == 3 * bytes.size());
  held.keep_only(2);
  CHECK(held.bytes() == bytes.size());
  CHECK(held.keep(self, block_of(2)));
  CHECK_FALSE(held.keep(self, block_of(2)));
  CHECK(held.take().size() == 2);
  CHECK(held == EarlyBlocks(held.bytes_max()));
}

TEST_CASE("no peer sends another more than twice the values of a sum", "[unit]") {
  constexpr std::size_t elements = 1000;  // The limits of early blocks depend on this law.
  for (const ReduceAlgorithm algorithm : reduce_algorithms()) {
    for (std::size_t ranks = 2; ranks <= 33; ++ranks) {
      for (std::size_t rank = 0; rank < ranks && fits(algorithm, ranks); ++rank) {
        std::map<std::size_t, std::size_t> received;
        for (const ReduceStep& step : reduce_plan(algorithm, ranks, rank, elements)) {
          if (step.kind == ReduceStep::Kind::send) continue;
          received[step.peer] += step.range.size();
        }
        for (const auto& [peer, values] : received) CHECK(values <= 2 * elements);
      }
    }
  }
}

TEST_CASE("a copy of a run goes on by itself and ends like the original", "[unit]") {
  PipelineOptions options = two_stages();
  SECTION("replicas that sum gradients") {}
  SECTION("replicas that first test the model") { options.test_samples = 3; }
  SECTION("replicas that average parameters") { options.consensus = StageConsensus::gossip; }
  SECTION("replicas that mix by a rule") { options.consensus = StageConsensus::mixing; }
  check_copies(options, generation());
}

TEST_CASE("a copy of a run of groups goes on by itself and ends like the original", "[unit]") {
  SECTION("one group") { check_copies(one_stage_in_two_slices(), groups_of_two({self, replica})); }
  SECTION("two groups with the same slices") {
    check_copies(one_stage_in_two_slices(), groups_of_two({before, self, replica, stranger}));
  }
}

TEST_CASE("runs are equal only if their options and states are", "[unit]") {
  PipelineOptions options = two_stages();
  options.test_samples = 1;
  PipelineOptions others = options;
  others.micro_batches = 4;
  const PipelineRun run(self, run_seed, options);
  PipelineRun entered = run;
  entered.enter(generation());
  PipelineRun begun = entered;
  PipelineRun tests = entered;
  Effects out;
  begun.begin(0, false, out);
  tests.begin(0, true, out);
  const std::vector<PipelineRun> all = {run,
                                        PipelineRun(replica, run_seed, options),
                                        PipelineRun(self, run_seed + 1, options),
                                        PipelineRun(self, run_seed, others),
                                        entered,
                                        begun,
                                        tests};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = 0; k < all.size(); ++k) {
      INFO("runs " << i << " and " << k);
      CHECK((all[i] == all[k]) == (i == k));
      CHECK((hash_of(all[i], Time{}) == hash_of(all[k], Time{})) == (i == k));
    }
  }
  PipelineRun left = begun;
  left.leave();
  CHECK_FALSE(left == begun);
}

}  // namespace gv
