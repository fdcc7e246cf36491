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

TEST_CASE("peers that all leave begin nothing", "[unit]") {
  const std::vector<StageOffer> offers = {
      {PeerId{1}, 1, {carries(0, 7)}, true},
      {PeerId{2}, 1, {carries(1, 7)}, true},
  };
  CHECK_FALSE(plan_stages(offers, two_stages));
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

TEST_CASE("holdings of slices that follow each other are named as one", "[unit]") {
  const StageParts parts({0, 4, 4});
  CHECK(parts.count() == 11);
  std::vector<StageHolding> holdings = {carries(1, 7), carries(0, 7)};
  for (const std::uint32_t part : {3U, 4U, 5U, 8U}) holdings.push_back(carries(part, 7));
  for (const std::uint32_t part : {5U, 6U}) holdings.push_back(keeps(part, 4));
  const std::vector<StageHolding> packed = parts.packed(holdings);
  CHECK(packed.size() == 5);
  CHECK(std::ranges::all_of(packed, [&](const auto& one) { return parts.names(one); }));
  const std::vector<StageHolding> unpacked = parts.unpacked(packed);
  CHECK(unpacked.size() == holdings.size());
  for (const StageHolding& holding : holdings) {
    CHECK(std::ranges::find(unpacked, holding) != unpacked.end());
  }
  // Invalid parts: one beyond the last, and runs that contain stages or reach beyond the last part.
  for (const std::uint32_t bad : {11U, (1U << 16) + 0, (9U << 16) + 3, (0xFFFFU << 16) + 10}) {
    CHECK_FALSE(parts.names(carries(bad, 7)));
    CHECK(parts.unpacked({carries(bad, 7)}).empty());
  }
}

namespace {

/// One stage of 24 slices. Part 1 is the first slice.
StagePlanOptions sliced(std::size_t group, std::size_t most = 0) {
  return {
      .parts = StageParts({24}),
      .group = {.least = most == 0 ? 1 : std::min(group, (24 + most - 1) / most), .most = group},
      .slices_most = most};
}

/// A peer that carries the slices in `own`, and keeps a copy of the slices in `kept`.
StageOffer member(std::uint64_t id, Range own, Range kept) {
  StageOffer offer{PeerId{id}, 1, {carries(0, 7), keeps(0, 4)}};
  for (auto s = static_cast<std::uint32_t>(own.begin); s < own.end; ++s) {
    offer.holdings.push_back(carries(1 + s, 7));
    offer.holdings.push_back(keeps(1 + s, 4));
  }
  for (auto s = static_cast<std::uint32_t>(kept.begin); s < kept.end; ++s) {
    offer.holdings.push_back(keeps(1 + s, 4));
  }
  return offer;
}

/// The slices that the plan gives a peer.
Range slices_of(const StagePlan& plan, std::span<const PeerId> order, std::size_t rank) {
  const HeldParts held = held_parts(order, plan.assignments, StageParts({24}));
  CHECK_FALSE(held.is_ragged);
  return held.slices[rank].at(0);
}

}  // namespace

TEST_CASE("slices lost with a member come from another group, or else all go back", "[unit]") {
  const std::vector<double> one_stage = {1};
  // The first two of four peers form a group, as do the last two. The second peer is gone.
  const std::vector<StageOffer> two_groups = {member(1, {0, 12}, {12, 24}), member(3, {0, 12}, {}),
                                              member(4, {12, 24}, {0, 12})};
  const auto on = plan_stages(two_groups, one_stage, sliced(2));
  REQUIRE(on);
  CHECK(on->version == after(7));
  for (const StageAssignment& assignment : on->assignments) {
    if (assignment.stage > 12) CHECK(assignment.source == PeerId{4});
  }
  const std::vector<StageOffer> one_group = {member(1, {0, 12}, {12, 24})};
  const auto back = plan_stages(one_group, one_stage, sliced(2));
  REQUIRE(back);
  CHECK(back->version == after(4));
  const std::vector<PeerId> order = {PeerId{1}};
  CHECK(slices_of(*back, order, 0) == Range{0, 24});
  // Without the copies no version is complete.
  CHECK_FALSE(plan_stages(std::vector<StageOffer>{member(1, {0, 12}, {})}, one_stage, sliced(2)));
}

TEST_CASE("peers that are too few for their memory begin nothing", "[unit]") {
  const std::vector<double> one_stage = {1};
  std::vector<StageOffer> offers;
  std::vector<PeerId> order;
  for (std::uint64_t id = 1; id <= 5; ++id) {
    offers.push_back(member(id, {0, 24}, {}));
    order.push_back(PeerId{id});
    const auto plan = plan_stages(offers, one_stage, sliced(4, 8));
    CHECK(plan.has_value() == (id >= 3));
    if (!plan) continue;
    std::size_t next = 0;
    for (std::size_t rank = 0; rank < id; ++rank) {
      const Range own = slices_of(*plan, order, rank);
      CHECK(own.size() <= 8);
      CHECK(own.begin == next);
      next = own.end;
    }
    CHECK(next == 24);
  }
}

TEST_CASE("a stage that needs several peers for its memory gets them before others get more",
          "[unit]") {
  const StagePlanOptions options{
      .parts = StageParts({24, 24, 0}), .group = {.least = 2, .most = 2}, .slices_most = 12};
  const std::vector<double> seconds = {5, 1, 0.1};
  const auto carriers_of = [](const StagePlan& plan, std::uint32_t stage) {
    return std::ranges::count(plan.assignments, stage, &StageAssignment::stage);
  };
  std::vector<StageOffer> offers;
  for (std::uint64_t id = 1; id <= 7; ++id) {
    offers.push_back({PeerId{id}, 1, {keeps(0, 0)}});
    const auto plan = plan_stages(offers, seconds, options);
    INFO(id << " peers");
    REQUIRE(plan.has_value() == (id >= 5));
    if (!plan) continue;
    CHECK(carriers_of(*plan, 0) == static_cast<std::ptrdiff_t>(id) - 3);
    CHECK(carriers_of(*plan, 1) == 2);
    CHECK(carriers_of(*plan, 2) == 1);
  }
  // Peers that already carry a stage keep it, and the newcomer takes the stage that lacks a
  // carrier.
  std::vector<StageOffer> running;
  for (std::uint64_t id = 1; id <= 4; ++id) {
    const std::uint32_t stage = id == 4 ? 2 : 0;
    running.push_back({PeerId{id}, 1, {carries(stage, 7)}});
    for (std::uint32_t part = 0; part < options.parts.count(); ++part) {
      if (part != stage) running.back().holdings.push_back(keeps(part, 7));
    }
  }
  running.push_back({PeerId{5}, 1, {keeps(0, 0)}});
  const auto plan = plan_stages(running, seconds, options);
  REQUIRE(plan);
  CHECK(carriers_of(*plan, 0) == 2);
  CHECK(carriers_of(*plan, 1) == 2);
}

TEST_CASE("a group of more peers than slices begins nothing", "[unit]") {
  std::vector<StageOffer> offers;
  for (std::uint64_t id = 1; id <= 26; ++id) {
    offers.push_back(member(id, {0, 24}, {}));
    const auto plan = plan_stages(offers, std::vector<double>{1}, sliced(24, 1));
    CHECK(plan.has_value() == (id == 24));
  }
}

TEST_CASE("assignments of slices that follow each other are named as one", "[unit]") {
  const StageParts parts({0, 4, 4});
  const auto by = [](std::uint32_t part, std::uint64_t carrier, std::uint64_t source) {
    return StageAssignment{.stage = part, .carrier = PeerId{carrier}, .source = PeerId{source}};
  };
  // Peer 1 carries stages 0 and 1 and gets one slice from peer 2, which carries stage 2 alone.
  std::vector<StageAssignment> assignments = {by(0, 1, 1), by(1, 1, 1), by(3, 1, 1), by(4, 1, 1),
                                              by(5, 1, 2), by(6, 1, 1), by(2, 2, 2)};
  for (std::uint32_t part = 7; part < 11; ++part) assignments.push_back(by(part, 2, 2));
  const std::vector<StageAssignment> packed = parts.packed(assignments);
  CHECK(packed.size() == 7);
  CHECK(std::ranges::all_of(packed, [&](const auto& one) { return parts.names(one); }));
  CHECK(parts.unpacked(packed) == assignments);
  CHECK(parts.unpacked(assignments) == assignments);
  CHECK_FALSE(parts.names(by((1U << 16) + 1, 1, 1)));
  CHECK(parts.unpacked({by((9U << 16) + 3, 1, 1), by(11, 1, 1)}).empty());
}

}  // namespace gv
