// The version from which a pipeline continues, the stage assignment, and the senders of states.
#include "consensus/pipeline/stage_plan.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

namespace gv {
namespace {

ModelVersion after(std::uint64_t operations) { return {operations, 10 * operations, operations}; }

StageHolding carries(std::uint32_t stage, std::uint64_t operations) {
  return {stage, true, after(operations)};
}
StageHolding keeps(std::uint32_t stage, std::uint64_t operations) {
  return {stage, false, after(operations)};
}

const std::vector<double> two_stages = {0.5, 0.5};

}  // namespace

TEST_CASE("a peer that leaves carries nothing and sends what it alone has", "[unit]") {
  const std::vector<StageOffer> offers = {
      {PeerId{1}, 1, {carries(0, 7), keeps(1, 4)}},
      {PeerId{2}, 1, {carries(1, 7), keeps(0, 4)}, true},
  };
  const auto plan = plan_stages(offers, two_stages);
  REQUIRE(plan);
  CHECK(plan->version == after(7));
  CHECK(plan->assignments ==
        std::vector<StageAssignment>{{0, PeerId{1}, PeerId{1}}, {1, PeerId{1}, PeerId{2}}});
}

TEST_CASE("a peer that leaves sends nothing that another carries", "[unit]") {
  const std::vector<StageOffer> offers = {
      {PeerId{1}, 1, {carries(0, 7)}},
      {PeerId{2}, 1, {carries(1, 7)}, true},
      {PeerId{3}, 1, {carries(1, 7)}},
  };
  const auto plan = plan_stages(offers, two_stages);
  REQUIRE(plan);
  CHECK(std::ranges::all_of(plan->assignments, [](const StageAssignment& assignment) {
    return assignment.source == assignment.carrier && assignment.carrier != PeerId{2};
  }));
}

TEST_CASE("a stage lost with its carrier takes all back to the copy of it", "[unit]") {
  const std::vector<StageOffer> offers = {
      {PeerId{1}, 1, {carries(0, 7), keeps(0, 4), keeps(1, 4)}},
      {PeerId{3}, 1, {}},
  };
  const auto plan = plan_stages(offers, two_stages);
  REQUIRE(plan);
  CHECK(plan->version == after(4));
}

TEST_CASE("all start over only where all claim the beginning", "[unit]") {
  const StageOffer late = {PeerId{1}, 1, {carries(0, 7), keeps(0, 4)}};
  const StageOffer early = {PeerId{1}, 1, {keeps(0, 0), carries(0, 2), keeps(0, 1)}};
  const StageOffer newcomer = {PeerId{2}, 1, {keeps(0, 0)}};
  CHECK_FALSE(plan_stages(std::vector<StageOffer>{late, newcomer}, two_stages));
  const auto plan = plan_stages(std::vector<StageOffer>{early, newcomer}, two_stages);
  REQUIRE(plan);
  CHECK(plan->version == after(0));
}

TEST_CASE("a newcomer's beginning is not newer than what others have whole", "[unit]") {
  const std::vector<StageOffer> offers = {
      {PeerId{1}, 1, {keeps(0, 0), carries(0, 2), carries(1, 2)}},
      {PeerId{2}, 1, {keeps(0, 0)}},
  };
  const auto plan = plan_stages(offers, two_stages);
  REQUIRE(plan);
  CHECK(plan->version == after(2));
}

}  // namespace gv
