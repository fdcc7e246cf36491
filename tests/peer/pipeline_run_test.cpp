// What a run of a pipeline takes from whom.
#include "peer/modes/pipeline_run.hpp"

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "consensus/message/transfer_id.hpp"

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

}  // namespace gv
