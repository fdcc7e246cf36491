// Downloads of states across generations: if a source dies, the next one sends the rest or
// everything.
#include "peer/modes/state_transfer.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "peer/modes/stage_states.hpp"

namespace gv {
namespace {

constexpr PeerId self{3};
constexpr PeerId first{1};
constexpr PeerId second{2};
constexpr std::size_t elements = 100'000;  // Two blocks.
constexpr std::uint64_t layout = 7;
const ModelVersion newest{.step = 5, .samples = 80, .lineage = 9};

/// A generation in which we get the state, or that of stage 1, from `source`.
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

/// The answer of a source whose state consists of equal values.
StateAnswer answer_of(PeerId source, const Generation& generation, const StateRequest& request,
                      float value, bool is_common) {
  StateTransfer states(source, layout, elements, std::pmr::get_default_resource());
  REQUIRE(states.is_asked(generation, self, request));
  Effects out;
  states.owe(Time{}, self, request, out);
  states.blank(generation.version);
  CHECK(states.send(generation, constant(value), is_common, out) == 1);
  return answer_in(out);
}

/// Gets part of a state in one generation, and the rest or all of it in the next. Returns the
/// offset at which the second source began.
std::size_t offset_in_next(const Generation& next, float value, bool is_common) {
  StateTransfer states(self, layout, elements, std::pmr::get_default_resource());
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
  const auto arrived = states.take();
  REQUIRE(arrived);
  CHECK(arrived->version == next.version);
  CHECK(arrived->from == second);
  CHECK(std::ranges::equal(*arrived->values, *constant(value)));
  return ended.transfer.offset;
}

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
  StateTransfer states(self, layout, elements, std::pmr::get_default_resource());
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

TEST_CASE("the next generation's source sends the rest of a stage where replicas are equal",
          "[unit]") {
  const bool is_common = GENERATE(true, false);
  PipelineOptions options{.consensus =
                              is_common ? StageConsensus::allreduce : StageConsensus::gossip};
  options.stages = {{.state = 10}, {.state = elements}};
  const auto answer = [&](PeerId source, const Generation& generation, const Effects& asked,
                          float value) {
    StageStates states(source, layout, options);
    Effects out;
    states.enter(generation);
    states.receive(Time{}, self, request_in(asked), out);
    CHECK(out.messages.empty());  // A task must copy the stage first.
    states.hand_over(1, constant(value), out);
    return answer_in(out);
  };
  StageStates states(self, layout, options);
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
  CHECK(states.receive(Time{}, second, ended.block(ended.left()), out));
  CHECK_FALSE(states.is_fetching());
  CHECK(std::ranges::equal(*states.take().at(1), *constant(value)));
}

}  // namespace gv
