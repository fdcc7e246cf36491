// Downloads of states across generations: if a source dies, the next one sends the rest or
// everything.
#include "peer/modes/state_transfer.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/rng.hpp"
#include "peer/modes/pipeline_run.hpp"
#include "peer/modes/stage_states.hpp"
#include "tests/facts.hpp"

namespace gv {
namespace {

constexpr PeerId self{3};
constexpr PeerId first{1};
constexpr PeerId second{2};
constexpr std::size_t elements = 100'000;  // This fills two blocks.
constexpr std::uint64_t layout = 7;
const ModelVersion newest{.step = 5, .samples = 80, .lineage = 9};

/// A generation in which we get the whole state, or that of stage 1, from `source`.
Generation from(PeerId source, std::uint64_t counter, const ModelVersion& version = newest) {
  return {.id = {.number = counter, .proposer = source},
          .order = {first, second, self},
          .sources = {first, second, source},
          .shares = {1, 1, 1},
          .version = version,
          .assignments = {{1, self, source}}};
}

VectorPool::Vector constant(float value) { return std::make_shared<Floats>(elements, value); }

StateRequest request_in(const Effects& out) {
  for (const Outgoing& outgoing : out.messages) {
    if (const auto* found = std::get_if<StateRequest>(&outgoing.message)) return *found;
  }
  FAIL("there is no request");
  return {};
}

StateTransfer transfer_of_peer(PeerId peer) {
  return {peer,
          {.layout_hash = layout,
           .elements = elements,
           .compared = elements,
           .memory = std::pmr::get_default_resource()},
          Rng(static_cast<std::uint64_t>(peer))};
}

/// A source's answer to a request, and the transfer that follows it.
struct StateAnswer {
  TransferAccepted accepted;
  Transfer transfer;

  Block block(std::size_t bytes) const {
    return {transfer.id, transfer.offset, transfer.payload.bytes.subspan(transfer.offset, bytes)};
  }
  std::size_t left() const { return transfer.payload.bytes.size() - transfer.offset; }
};

StateAnswer answer_in(const Effects& out) {
  REQUIRE(out.messages.size() == 1);
  REQUIRE(out.transfers.size() == 1);
  return {std::get<TransferAccepted>(out.messages[0].message), out.transfers[0]};
}

/// The answer of a source whose state has the same value everywhere.
StateAnswer answer_of(PeerId source, const Generation& generation, const StateRequest& request,
                      float value, bool is_common) {
  StateTransfer states = transfer_of_peer(source);
  REQUIRE(states.may_ask(generation, self, request.id));
  Effects out;
  states.owe(Time{}, self, request, out);
  states.blank(generation.version);
  CHECK(states.send(generation, constant(value), is_common, out) == 1);
  return answer_in(out);
}

/// Peer `of`, whose state has one value everywhere, answers as a witness of our download. Returns
/// false if it was not asked.
bool confirm(StateTransfer& states, const Generation& generation, PeerId of, float value,
             const Effects& asked, Effects& out) {
  for (const Outgoing& outgoing : asked.messages) {
    const auto* request = std::get_if<SketchRequest>(&outgoing.message);
    if (request == nullptr || outgoing.to != of) continue;
    StateTransfer witness = transfer_of_peer(of);
    REQUIRE(witness.may_ask(generation, self, request->id));
    Effects said;
    witness.owe(self, *request, said);
    CHECK(witness.owes_any());
    witness.blank(generation.version);
    witness.send(generation, constant(value), true, said);
    CHECK_FALSE(witness.owes_any());
    REQUIRE(said.messages.size() == 1);
    states.receive(Time{}, of, said.messages.front().message, out);
    return true;
  }
  return false;
}

/// Gets part of a state in one generation, and the rest or the whole state in the next. Returns the
/// offset at which the second source began.
std::size_t offset_in_next(const Generation& next, float value, bool is_common) {
  StateTransfer states = transfer_of_peer(self);
  Effects out;
  const Generation generation = from(first, 1);
  states.fetch(Time{}, generation, first, is_common, out);
  const StateAnswer begun = answer_of(first, generation, request_in(out), 1, is_common);
  states.receive(Time{}, first, begun.accepted, out);
  states.receive(Time{}, first, begun.block(block_bytes_usual), out);
  states.leave_generation();
  out = {};
  states.fetch(Time{}, next, second, is_common, out);
  const StateAnswer ended = answer_of(second, next, request_in(out), value, is_common);
  states.receive(Time{}, second, ended.accepted, out);
  CHECK_FALSE(states.take());
  states.receive(Time{}, second, ended.block(ended.left()), out);
  // A state that is common to all peers must first be confirmed by another peer that has the same
  // bits.
  if (is_common) CHECK_FALSE(states.take());
  CHECK(confirm(states, next, first, value, Effects(out), out) == is_common);
  const auto arrived = states.take();
  REQUIRE(arrived);
  CHECK(arrived->version == next.version);
  CHECK(arrived->from == second);
  CHECK(arrived->has_witness == is_common);
  CHECK(std::ranges::equal(*arrived->values, *constant(value)));
  return ended.transfer.offset;
}

/// A peer in a generation with two stages of 40 bytes, which receives copies of them.
class CopyKeeper {
 public:
  CopyKeeper() { states.enter(generation_); }

  /// Receives the first `size` bytes of a copy. Returns true if they are accepted.
  bool takes(PeerId sender, std::uint32_t stage, std::uint64_t run, std::size_t size) {
    Effects out;
    const TransferId id = copy_id(sender, generation_.key(), stage, run);
    const auto bytes = std::as_bytes(std::span<const float>(*values_));
    return states.receive(Time{}, sender, {id, 0, bytes.first(size)}, out);
  }

  StageStates states{self, layout, two_stages(), Rng(1)};

 private:
  static PipelineOptions two_stages() {
    PipelineOptions options;
    options.stages = {{.state = 10}, {.state = 10}};
    return options;
  }

  Generation generation_ = from(first, 1);
  VectorPool::Vector values_ = constant(1);
};

}  // namespace

TEST_CASE("the next generation's source sends the rest of the same state", "[unit]") {
  CHECK(offset_in_next(from(second, 2), 1, true) == block_bytes_usual);
}

TEST_CASE("a source at another version sends all of it", "[unit]") {
  const ModelVersion later{.step = 6, .samples = 96, .lineage = 10};
  CHECK(offset_in_next(from(second, 2, later), 2, true) == 0);
}

TEST_CASE("where peers at one version have models of their own the next source sends all of it",
          "[unit]") {
  CHECK(offset_in_next(from(second, 2), 2, false) == 0);
}

TEST_CASE("a source that stops sending is named once", "[unit]") {
  StateTransfer states = transfer_of_peer(self);
  Effects out;
  const Generation generation = from(first, 1);
  states.fetch(Time{}, generation, first, true, out);
  Time now{};
  // A silent source is asked again, because it may be computing.
  for (int i = 0; i < 20; ++i) {
    now = states.deadline();
    CHECK_FALSE(states.tick(now, out));
  }
  CHECK(out.messages.size() == 21);
  const StateAnswer begun = answer_of(first, generation, request_in(out), 1, true);
  states.receive(now, first, begun.accepted, out);
  states.receive(now, first, begun.block(block_bytes_usual), out);
  CHECK(states.tick(states.deadline(), out) == first);
}

TEST_CASE("a state that the other peers do not have is refused and one of them sends theirs",
          "[unit]") {
  const bool is_common = GENERATE(true, false);
  constexpr PeerId third{4};
  Generation generation = from(first, 1);
  generation.order.push_back(third);
  generation.sources.push_back(third);
  StateTransfer states = transfer_of_peer(self);
  Effects out;
  states.fetch(Time{}, generation, first, is_common, out);
  const StateAnswer false_one = answer_of(first, generation, request_in(out), 100, is_common);
  states.receive(Time{}, first, false_one.accepted, out);
  out = {};
  states.receive(Time{}, first, false_one.block(block_bytes_usual), out);
  states.receive(Time{}, first,
                 {false_one.transfer.id, block_bytes_usual,
                  false_one.transfer.payload.bytes.subspan(block_bytes_usual)},
                 out);
  const Effects asked = std::exchange(out, {});
  REQUIRE(confirm(states, generation, second, 1, asked, out));
  CHECK_FALSE(states.take());
  REQUIRE(confirm(states, generation, third, 1, asked, out));
  CHECK_FALSE(states.take());
  // We ask another peer for its state, with a new id.
  const StateRequest again = request_in(out);
  CHECK(again.offset == 0);
  const PeerId source = out.messages.front().to;
  CHECK(source != first);
  const StateAnswer sound = answer_of(source, generation, again, 1, is_common);
  states.receive(Time{}, source, sound.accepted, out);
  out = {};
  states.receive(Time{}, source, sound.block(block_bytes_usual), out);
  states.receive(Time{}, source,
                 {sound.transfer.id, block_bytes_usual,
                  sound.transfer.payload.bytes.subspan(block_bytes_usual)},
                 out);
  // The first source contradicts this state, and the other peer confirms it.
  const Effects asked_again = std::exchange(out, {});
  confirm(states, generation, first, 100, asked_again, out);
  confirm(states, generation, source == second ? third : second, 1, asked_again, out);
  const auto arrived = states.take();
  REQUIRE(arrived);
  CHECK(arrived->from == source);
  CHECK(arrived->has_witness);
  CHECK(std::ranges::equal(*arrived->values, *constant(1)));
}

TEST_CASE("if no state is confirmed by another peer the source is given up", "[unit]") {
  const Generation generation = from(first, 1);
  StateTransfer states = transfer_of_peer(self);
  Effects out;
  states.fetch(Time{}, generation, first, true, out);
  for (const auto& [source, value] : {std::pair(first, 1.0F), std::pair(second, 2.0F)}) {
    const StateAnswer answer = answer_of(source, generation, request_in(out), value, true);
    states.receive(Time{}, source, answer.accepted, out);
    out = {};
    states.receive(Time{}, source, answer.block(block_bytes_usual), out);
    states.receive(Time{}, source,
                   {answer.transfer.id, block_bytes_usual,
                    answer.transfer.payload.bytes.subspan(block_bytes_usual)},
                   out);
    const Effects asked = std::exchange(out, {});
    CHECK_FALSE(states.tick(Time{}, out));
    REQUIRE(confirm(states, generation, source == first ? second : first, 3 - value, asked, out));
    const auto given_up = states.tick(Time{}, out);
    CHECK(given_up.has_value() == (source == second));
  }
  CHECK_FALSE(states.take());
}

TEST_CASE("only peers that lack a state may ask peers that have it", "[unit]") {
  const Generation generation = from(first, 1);
  StateTransfer of_second = transfer_of_peer(second);
  const std::uint64_t key = generation.key();
  CHECK(of_second.may_ask(generation, self, state_id(self, key, 1)));
  CHECK_FALSE(of_second.may_ask(generation, first, state_id(first, key, 1)));
  CHECK_FALSE(of_second.may_ask(generation, PeerId{9}, state_id(PeerId{9}, key, 1)));
  CHECK_FALSE(of_second.may_ask(generation, self, state_id(self, key + 1, 1)));
  CHECK_FALSE(of_second.may_ask(generation, self, state_id(first, key, 1)));
  CHECK_FALSE(transfer_of_peer(self).may_ask(generation, first, state_id(first, key, 1)));
}

namespace {

/// `source` has these values of stage 1. It sends a sketch of them if `asked` requests one.
void sketch_from(StageStates& states, PeerId source, const Generation& generation,
                 const StageValues& values, const Effects& asked) {
  for (const auto& [to, message] : asked.messages) {
    const auto* request = std::get_if<SketchRequest>(&message);
    if (request == nullptr || to != source) continue;
    PipelineOptions options;
    options.stages = {{.state = 10}, {.state = elements}};
    StageStates sender(source, layout, options, Rng(1));
    sender.enter(generation);
    Effects said;
    sender.receive(Time{}, self, *request, said);
    sender.hand_over(1, values, said);
    REQUIRE(said.messages.size() == 1);
    Effects out;
    states.receive(Time{}, source, said.messages.front().message, out);
  }
}

}  // namespace

TEST_CASE("the next generation's source sends the rest of a stage where replicas are equal",
          "[unit]") {
  const bool is_common = GENERATE(true, false);
  PipelineOptions options{.consensus =
                              is_common ? StageConsensus::allreduce : StageConsensus::gossip};
  options.stages = {{.state = 10}, {.state = elements}};
  const auto answer = [&](PeerId source, const Generation& generation, const Effects& asked,
                          float value) {
    StageStates states(source, layout, options, Rng(1));
    Effects out;
    states.enter(generation);
    states.receive(Time{}, self, request_in(asked), out);
    CHECK(out.messages.empty());  // A task must copy the stage first.
    states.hand_over(1, constant(value), out);
    return answer_in(out);
  };
  StageStates states(self, layout, options, Rng(1));
  Effects out;
  const Generation generation = from(first, 1);
  states.enter(generation);
  states.fetch(Time{}, 1, first, out);
  const StateAnswer begun = answer(first, generation, out, 1);
  states.receive(Time{}, first, begun.accepted, out);
  CHECK(states.receive(Time{}, first, begun.block(block_bytes_usual), out));
  states.leave();
  out = {};
  const Generation next = from(second, 2);
  states.enter(next);
  states.fetch(Time{}, 1, second, out);
  const float value = is_common ? 1 : 2;
  const StateAnswer ended = answer(second, next, out, value);
  CHECK(ended.transfer.offset == (is_common ? block_bytes_usual : 0));
  states.receive(Time{}, second, ended.accepted, out);
  CHECK(states.is_fetching());
  out = {};
  CHECK(states.receive(Time{}, second, ended.block(ended.left()), out));
  // No third peer can confirm a state that came from both others, so the second source is asked for
  // a sketch.
  CHECK(states.is_fetching() == is_common);
  if (is_common) sketch_from(states, second, next, constant(value), out);
  CHECK_FALSE(states.is_fetching());
  CHECK(std::ranges::equal(*states.take().at(1), *constant(value)));
}

TEST_CASE("a source of several parts is named once in each generation", "[unit]") {
  PipelineOptions options;
  options.stages = {{.state = 10}, {.state = elements}, {.state = elements}};
  StageStates states(self, layout, options, Rng(1));
  for (std::uint64_t ballot = 1; ballot <= 2; ++ballot) {
    Effects out;
    states.enter(from(first, ballot));
    states.fetch(Time{}, 1, first, out);
    states.fetch(Time{}, 2, first, out);
    states.fetch(Time{}, 0, second, out);
    CHECK(out.messages.size() == 3);
    std::vector<PeerId> named;
    for (const Fact& fact : out.facts) {
      if (const auto* asked = std::get_if<FetchAsked>(&fact)) named.push_back(asked->peer);
    }
    CHECK(named == std::vector{first, second});
    states.leave();
  }
}

TEST_CASE("a stage made of the different states of two peers is not taken", "[unit]") {
  PipelineOptions options;
  options.stages = {{.state = 10}, {.state = elements}};
  StageStates states(self, layout, options, Rng(1));
  const auto fetch = [&](PeerId source, std::uint64_t ballot, float value, std::size_t bytes) {
    const Generation generation = from(source, ballot);
    Effects out;
    states.enter(generation);
    states.fetch(Time{}, 1, source, out);
    StageStates sender(source, layout, options, Rng(1));
    Effects said;
    sender.enter(generation);
    sender.receive(Time{}, self, request_in(out), said);
    sender.hand_over(1, constant(value), said);
    const StateAnswer answer = answer_in(said);
    states.receive(Time{}, source, answer.accepted, out);
    out = {};
    states.receive(Time{}, source, answer.block(std::min(bytes, answer.left())), out);
    sketch_from(states, source, generation, constant(value), out);
    return answer.transfer.offset;
  };
  CHECK(fetch(first, 1, 1, block_bytes_usual) == 0);
  CHECK(fetch(second, 2, 2, elements * sizeof(float)) == block_bytes_usual);
  CHECK(states.is_fetching());
  Effects out;
  CHECK(states.tick(Time{}, out) == second);
  // In the next generation the source sends everything.
  CHECK(fetch(second, 3, 2, block_bytes_usual) == 0);
}

TEST_CASE("a stage that the other carriers do not have is refused and one of them sends theirs",
          "[unit]") {
  PipelineOptions options{.consensus = GENERATE(StageConsensus::allreduce, StageConsensus::gossip)};
  options.stages = {{.state = 10}, {.parameters = elements / 2, .state = elements}};
  constexpr PeerId third{4};
  Generation generation = from(first, 1);
  for (const PeerId peer : {first, second, third}) {
    generation.assignments.push_back({1, peer, peer});
  }
  std::map<PeerId, StageStates> peers;
  for (const PeerId peer : {first, second, self, third}) {
    peers.emplace(peer, StageStates(peer, layout, options, Rng(1))).first->second.enter(generation);
  }
  Effects out;
  peers.at(self).fetch(Time{}, 1, first, out);
  std::vector<std::pair<PeerId, Effects>> under_way{{self, std::move(out)}};
  std::vector<PeerId> sources;
  std::size_t refused = 0;
  for (int turn = 0; turn < 100 && !under_way.empty(); ++turn) {
    const auto [from, said] = std::move(under_way.back());
    under_way.pop_back();
    refused += count_of<ModelRefused>(said.facts);
    for (const auto& [to, message] : said.messages) {
      Effects answer;
      StageStates& states = peers.at(to);
      states.receive(Time{}, from, message, answer);
      if (std::holds_alternative<StateRequest>(message)) sources.push_back(to);
      for (const std::uint32_t stage : states.take_to_copy()) {
        states.hand_over(stage, constant(to == first ? 100 : 1), answer);
      }
      under_way.emplace_back(to, std::move(answer));
    }
    for (const Transfer& transfer : said.transfers) {
      for (std::size_t at = 0; at < elements * sizeof(float); at += block_bytes_usual) {
        const std::size_t size = std::min(block_bytes_usual, elements * sizeof(float) - at);
        Effects answer;
        peers.at(transfer.to)
            .receive(Time{}, from, {transfer.id, at, transfer.payload.bytes.subspan(at, size)},
                     answer);
        under_way.emplace_back(transfer.to, std::move(answer));
      }
    }
  }
  CHECK(refused == 1);
  REQUIRE(sources.size() == 2);
  CHECK(sources.front() == first);
  CHECK_FALSE(peers.at(self).is_fetching());
  CHECK(std::ranges::equal(*peers.at(self).take().at(1), *constant(1)));
}

TEST_CASE("only peers that are to carry a stage without its state may ask others for it",
          "[unit]") {
  PipelineOptions options;
  options.stages = {{.state = 10}, {.parameters = elements, .state = elements}};
  Generation generation = from(first, 1);
  generation.assignments.push_back({1, second, second});
  StageStates states(second, layout, options, Rng(1));
  states.enter(generation);
  const auto answers = [&](PeerId peer, std::uint32_t stage) {
    Effects out;
    const TransferId id = state_id(peer, generation.key(), reviews_from + 1, stage);
    states.receive(Time{}, peer, SketchRequest{.id = id, .seed = 1, .layout_hash = layout}, out);
    for (const std::uint32_t each : states.take_to_copy()) {
      states.hand_over(each, constant(1), out);
    }
    return out.messages.size();
  };
  CHECK(answers(first, 1) == 0);
  CHECK(answers(self, 0) == 0);
  CHECK(answers(PeerId{9}, 1) == 0);
  CHECK(answers(self, 1) == 1);
}

TEST_CASE("copies of one part that nobody expects take no room from those of others", "[unit]") {
  CopyKeeper keeper;
  for (std::uint64_t run = 1; run <= 20; ++run) CHECK(keeper.takes(first, 0, run, 4) == (run <= 2));
  keeper.states.expect_copy(1, {.step = 8, .samples = 8, .lineage = 1}, second);
  CHECK(keeper.takes(second, 1, 8, 40));
  CHECK_FALSE(keeper.states.expects_copies());
}

TEST_CASE("states kept until a run are dropped by it and other copies are not", "[unit]") {
  PipelineOptions options;
  options.stages = {{.state = 10}, {.state = 10}};
  StageStates states(self, layout, options, Rng(1));
  const ModelVersion had{.step = 5, .samples = 5, .lineage = 1};
  const ModelVersion copied{.step = 4, .samples = 4, .lineage = 1};
  states.keep(0, copied, constant(1));
  states.keep_until_run(0, copied, constant(2));  // This version is already kept for good.
  states.keep_until_run(1, had, constant(3));
  CHECK(states.find(0, copied));
  CHECK(states.find(1, had));
  CHECK(states.holdings().size() == 2);
  states.settle({});
  CHECK(states.find(0, copied));
  CHECK_FALSE(states.find(1, had));
}

TEST_CASE("blocks of copies that come again take no room from later copies", "[unit]") {
  CopyKeeper keeper;
  for (std::uint64_t run = 1; run <= 20; ++run) {
    keeper.states.expect_copy(0, {.step = run, .samples = run, .lineage = 1}, first);
    CHECK(keeper.takes(first, 0, run, 40));
    CHECK_FALSE(keeper.states.expects_copies());
    CHECK_FALSE(keeper.takes(first, 0, run, 40));
  }
}

TEST_CASE("a copy takes the memory of an earlier one that nobody needs any more", "[unit]") {
  CopyKeeper keeper;
  const auto kept = [&](std::uint64_t run) {
    const ModelVersion version{.step = run, .samples = run, .lineage = 1};
    keeper.states.expect_copy(0, version, first);
    REQUIRE(keeper.takes(first, 0, run, 40));
    return keeper.states.find(0, version);
  };
  const std::weak_ptr<Floats> earlier = kept(1);
  CHECK(kept(2) != earlier.lock());
  keeper.states.settle({.step = 2, .samples = 2, .lineage = 1});
  REQUIRE_FALSE(earlier.expired());
  const StageValues again = keeper.states.blank(0);
  CHECK(again == earlier.lock());
}

TEST_CASE("a peer takes results only for stages that it carries", "[unit]") {
  PipelineOptions options{.micro_batches = 4};
  options.stages = {
      {.forward = 8, .backward = 8}, {.forward = 8, .backward = 8}, {.forward = 8, .backward = 8}};
  PipelineRun run(self, 1, options);
  Generation generation{.id = {.number = 1, .proposer = first},
                        .order = {first, second, self},
                        .sources = {first, second, self},
                        .shares = {1, 1, 1}};
  for (std::uint32_t stage = 0; stage < 3; ++stage) {
    const PeerId carrier = generation.order[stage];
    generation.assignments.push_back({stage, carrier, carrier});
  }
  run.enter(generation);
  const VectorPool::Vector values = constant(1);
  const auto bytes = std::as_bytes(std::span<const float>(*values)).first(8 * sizeof(float));
  const auto takes = [&](PeerId from, const PassName& name) {
    Effects out;
    return run.receive(from, {pass_id(from, generation.key(), name), 0, bytes}, out);
  };
  CHECK_FALSE(takes(first, {.stage = 1}));
  CHECK_FALSE(takes(first, {.stage = 0, .backward = true}));
  CHECK_FALSE(takes(first, {.stage = 2}));
  CHECK(takes(second, {.stage = 2}));
}

}  // namespace gv
