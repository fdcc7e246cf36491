// The agreement by itself. In random networks all peers that run a generation run the same one, and
// in the end it contains all peers. In scripted cases, the agreement sends the required messages.
#include "consensus/generation/agreement.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/rng.hpp"
#include "peer/modes/replica_planner.hpp"
#include "peer/modes/stage_planner.hpp"
#include "tests/peer/agreeing.hpp"
#include "tests/signers.hpp"

namespace gv {

using namespace std::chrono_literals;

TEST_CASE("in two thousand drawn networks all who run a generation run the same one and end in one",
          "[unit]") {
  std::uint64_t operations = 0;
  std::uint64_t generations = 0;
  double slowest = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Rng rng = Rng(seed).fork("weather");
    Agreeing world(draw_weather(rng), seed);
    world.live_through_it();
    const Time healed = world.now();
    while (!world.is_one() && world.broken.empty() && world.now() < healed + 90s) {
      world.run_until(world.now() + 100ms);
    }
    slowest = std::max(slowest, seconds(world.now() - healed));
    const std::uint64_t before = world.operations();
    world.run_until(world.now() + 10s);
    INFO("seed " << seed);
    REQUIRE(world.broken == "");
    REQUIRE(world.is_one());
    REQUIRE(world.operations() > before);
    operations += world.operations();
    generations += world.generations();
  }
  INFO(operations << " operations in " << generations << " generations; one again after " << slowest
                  << " s");
  CHECK(operations > 100000);
  CHECK(generations > 10000);
}

TEST_CASE("measured links decide on order and algorithm for all and for as long as they say so",
          "[unit]") {
  // The first peer proposes. The test passes the other peers' answers to it.
  const std::vector<PeerId> peers{PeerId{1}, PeerId{2}, PeerId{3}, PeerId{4}, PeerId{5}};
  const auto reports = [&](PeerId from, float slow) {
    std::vector<LinkReport> links;
    for (const PeerId to : peers) {
      const bool slow_pair = std::min(from, to) == PeerId{2} && std::max(from, to) == PeerId{3};
      if (to != from) links.push_back({to, 1e-4F, slow_pair ? slow : 1e9F});
    }
    return links;
  };
  const ReplicaPlanner planner({.elements = 1 << 20, .algorithm = ReduceAlgorithm::ring});
  Agreement first(PeerId{1}, 1, {}, signer_of(PeerId{1}));
  first.set_version({.lineage = 1});
  Effects out;
  first.set_candidates(Time{}, peers);
  first.disturb(Time{}, {}, out);
  Time now{};
  const auto agree = [&](std::optional<float> slow) {
    now += 1s;
    first.set_links(slow ? reports(PeerId{1}, *slow) : std::vector<LinkReport>());
    out = {};
    first.disturb(now, {}, out);
    first.tick(now, planner, out);
    Effects decided;
    for (const PeerId peer : peers) {
      if (peer == PeerId{1}) continue;
      const Promise answer{
          .ballot = first.promised(),
          .answer = {.version = {.lineage = 1},
                     .links = slow ? reports(peer, *slow) : std::vector<LinkReport>()}};
      first.receive(now, peer, Message(answer), planner, decided);
    }
    REQUIRE(first.generation() != nullptr);
    std::size_t told = 0;
    for (const Outgoing& outgoing : decided.messages) {
      const auto* start = std::get_if<Install>(&outgoing.message);
      if (start == nullptr) continue;
      ++told;
      CHECK(start->generation == *first.generation());
    }
    CHECK(told == 4);
    return *first.generation();
  };
  const auto distance = [](const Generation& generation) {
    const auto at = [&](PeerId peer) { return std::ranges::find(generation.order, peer); };
    const auto apart = std::abs(at(PeerId{2}) - at(PeerId{3}));
    return std::min(apart, 5 - apart);
  };
  CHECK(agree({}).order == peers);
  CHECK(first.generation()->slowest.bytes_per_second == 0);
  CHECK(agree(1e9F).order == peers);
  CHECK(first.generation()->slowest.bytes_per_second == Approx(1e9));
  CHECK(agree(0.95e9F).order == peers);
  const Generation around = agree(1e8F);
  CHECK(distance(around) == 2);
  CHECK(around.slowest.bytes_per_second == Approx(1e9));
  // An order that is no better is not adopted, and a generation without new reports keeps the old
  // order.
  CHECK(agree(1e9F).order == around.order);
  CHECK(agree({}).order == around.order);
}

TEST_CASE("whatever number is lost at once everybody is told in one word", "[unit]") {
  const ReplicaPlanner planner({});
  Agreement first(PeerId{1}, 0, {}, signer_of(PeerId{1}));
  std::vector<PeerId> all;
  for (std::uint64_t id = 1; id <= 23; ++id) all.push_back(PeerId{id});
  Effects out;
  first.set_candidates(Time(0s), all);
  first.disturb(Time(0s), {}, out);
  first.tick(Time(0s), planner, out);
  for (const PeerId other : all) {
    if (other == PeerId{1}) continue;
    first.receive(Time(1ms), other, Message(Promise{.ballot = first.promised()}), planner, out);
  }
  REQUIRE(first.generation() != nullptr);
  out = {};
  first.disturb(Time(1s), {all.begin() + 5, all.end()}, out);
  CHECK(out.messages.size() == 22);
  for (std::size_t i = 5; i < all.size(); ++i) CHECK(first.is_blamed(all[i]));
}

TEST_CASE("a generation has the hosts that its peers answered", "[unit]") {
  const ReplicaPlanner planner({});
  Agreement first(PeerId{1}, 0, {}, signer_of(PeerId{1}));
  Effects out;
  const auto agree = [&](Time now, std::uint64_t own, std::uint64_t other) {
    first.set_host(own);
    first.disturb(now, {}, out);
    first.tick(now, planner, out);
    first.receive(now, PeerId{2},
                  Message(Promise{.ballot = first.promised(), .answer = {.host = other}}), planner,
                  out);
    REQUIRE(first.generation() != nullptr);
    return first.generation()->hosts;
  };
  first.set_candidates(Time(0s), {PeerId{1}, PeerId{2}});
  CHECK(agree(Time(0s), 7, 8) == std::vector<std::uint64_t>{7, 8});
  CHECK(agree(Time(10s), 7, 0) == std::vector<std::uint64_t>{7, 0});
  CHECK(agree(Time(20s), 0, 0).empty());
}

TEST_CASE("a peer that is told of a death does not wait for the dead", "[unit]") {
  const std::vector<PeerId> all = {PeerId{1}, PeerId{2}, PeerId{3}};
  const auto decided_after = [&](bool during_the_agreement, const std::vector<PeerId>& blamed) {
    const ReplicaPlanner planner({});
    Agreement first(PeerId{1}, 0, {}, signer_of(PeerId{1}));
    Effects out;
    first.set_candidates(Time(0s), all);
    first.disturb(Time(0s), {}, out);
    first.tick(Time(0s), planner, out);
    for (const PeerId other : {PeerId{2}, PeerId{3}}) {
      first.receive(Time(1ms), other, Message(Promise{.ballot = first.promised()}), planner, out);
    }
    REQUIRE(first.generation() != nullptr);
    const GenerationId generation = first.promised();
    if (during_the_agreement) {
      first.disturb(Time(1s), {}, out);
      first.tick(Time(1s), planner, out);
    }
    first.receive(Time(1s), PeerId{2}, Message(EndGeneration{generation, blamed}), planner, out);
    CHECK(first.generation() == nullptr);
    first.tick(Time(1s), planner, out);
    first.receive(Time(1s), PeerId{2}, Message(Promise{.ballot = first.promised()}), planner, out);
    Time now(1s);
    while (first.generation() == nullptr) {
      now = first.deadline();
      first.tick(now, planner, out);
    }
    CHECK(first.generation()->order == std::vector{PeerId{1}, PeerId{2}});
    return now - Time(1s);
  };
  // A peer that is not blamed has four times the usual 0.3 s to answer.
  CHECK(decided_after(false, {}) == 1200ms);
  CHECK(decided_after(false, {PeerId{3}}) == 300ms);
  CHECK(decided_after(true, {PeerId{3}}) == 300ms);
}

TEST_CASE("a peer whose ballot is void sends no answer to itself", "[unit]") {
  const ReplicaPlanner planner({});
  Agreement first(PeerId{1}, 0, {}, signer_of(PeerId{1}));
  Effects out;
  first.set_candidates(Time(0s), {PeerId{1}, PeerId{2}});
  first.disturb(Time(0s), {}, out);
  first.tick(Time(0s), planner, out);
  const GenerationId later{first.promised().number + 1, 0, PeerId{2}};
  first.receive(Time(1ms), PeerId{2}, Message(Preempted{later}), planner, out);
  // The first peer waits for the later ballot. News of other peers does not shorten the wait.
  first.set_candidates(Time(2ms), {PeerId{1}, PeerId{2}, PeerId{3}});
  Effects waits;
  for (Time now(2ms); now < Time(1s); now = first.deadline()) first.tick(now, planner, waits);
  CHECK(waits.messages.empty());
}

TEST_CASE("who is lost after it answered is in no generation", "[unit]") {
  const ReplicaPlanner planner({});
  Agreement first(PeerId{1}, 0, {}, signer_of(PeerId{1}));
  Effects out;
  first.set_candidates(Time(0s), {PeerId{1}, PeerId{2}, PeerId{3}});
  first.disturb(Time(0s), {}, out);
  first.tick(Time(0s), planner, out);
  const Message confirm = Promise{.ballot = first.promised()};
  first.receive(Time(1ms), PeerId{3}, confirm, planner, out);
  first.disturb(Time(2ms), {PeerId{3}}, out);
  first.receive(Time(3ms), PeerId{2}, confirm, planner, out);
  REQUIRE(first.generation() != nullptr);
  CHECK(first.generation()->order == std::vector{PeerId{1}, PeerId{2}});
}

TEST_CASE(
    "who stands still tells the others of a death and no generation of theirs ends for nothing",
    "[unit]") {
  const ReplicaPlanner planner({});
  Agreement second(PeerId{2}, 0, {}, signer_of(PeerId{2}));
  Effects out;
  second.set_candidates(Time(0s), {PeerId{1}, PeerId{2}, PeerId{3}});
  const GenerationId ballot{.number = 1, .proposer = PeerId{1}};
  second.receive(Time(0s), PeerId{1}, Message(Propose{ballot}), planner, out);
  out = {};
  second.disturb(Time(0s), {PeerId{3}}, out);
  second.disturb(Time(0s), {PeerId{3}}, out);  // Blaming the same peer again has no effect.
  REQUIRE(out.messages.size() == 2);
  const auto* halt = std::get_if<EndGeneration>(&out.messages.front().message);
  REQUIRE(halt != nullptr);
  CHECK(halt->ballot == ballot);
  CHECK(halt->blamed == std::vector{PeerId{3}});
  second.receive(
      Time(0s), PeerId{1},
      Message(installed({ballot, {PeerId{1}, PeerId{2}}, {PeerId{1}, PeerId{2}}, {1, 1}, {}})),
      planner, out);
  REQUIRE(second.generation() != nullptr);
  // The first message blames a peer that is not in the generation. The second is about an earlier
  // generation.
  second.receive(Time(0s), PeerId{1}, Message(EndGeneration{ballot, {PeerId{3}}}), planner, out);
  second.receive(Time(0s), PeerId{1}, Message(EndGeneration{{.proposer = PeerId{1}}, {PeerId{1}}}),
                 planner, out);
  CHECK(second.generation() != nullptr);
  second.receive(Time(0s), PeerId{1}, Message(EndGeneration{ballot, {PeerId{1}}}), planner, out);
  CHECK(second.generation() == nullptr);
}

TEST_CASE("generations that end before anything is done do not follow each other for ever at once",
          "[unit]") {
  const ReplicaPlanner planner({});
  Agreement first(PeerId{1}, 0, {}, signer_of(PeerId{1}));
  Effects out;
  first.set_candidates(Time(0s), {PeerId{1}, PeerId{2}});
  first.disturb(Time(0s), {}, out);
  Time now(0s);
  // The time from the end of a generation that lasted for `lasts` to the ballot for the next
  // generation.
  const auto pause = [&](Duration lasts, bool has_operation) {
    first.tick(now, planner, out);
    first.receive(now, PeerId{2}, Message(Promise{.ballot = first.promised()}), planner, out);
    REQUIRE(first.generation() != nullptr);
    if (has_operation) {
      first.set_version(after_operation(first.version(), first.generation()->key(), 2));
    }
    const Time end = now + lasts;
    first.disturb(end, {PeerId{2}}, out);
    REQUIRE(first.generation() == nullptr);
    now = std::max(end, first.deadline());
    return now - end;
  };
  CHECK(pause(10ms, true) == 0ms);
  CHECK(pause(10ms, false) == 0ms);  // The cause may be gone, so there is no pause yet.
  CHECK(pause(10ms, false) == 290ms);
  CHECK(pause(0ms, false) == 300ms);
  CHECK(pause(1s, false) == 0ms);
  CHECK(pause(10ms, true) == 0ms);
  CHECK(pause(10ms, false) == 0ms);
}

TEST_CASE("sums name senders unless two peers both say that they cannot reach each other",
          "[unit]") {
  const ReplicaPlanner planner({.elements = 1000, .names_senders = true});
  Answers answers;
  for (std::uint64_t peer = 1; peer <= 5; ++peer) answers[PeerId(peer)].version.step = 9;
  const auto is_direct = [&] {
    return planner.plan(answers, nullptr)->algorithm ==
           static_cast<std::uint8_t>(ReduceAlgorithm::direct);
  };
  CHECK(is_direct());
  answers[PeerId(2)].links = {{.to = PeerId(4)}};
  CHECK(is_direct());
  answers[PeerId(4)].links = {{.to = PeerId(1)}, {.to = PeerId(2)}};
  CHECK_FALSE(is_direct());
  answers[PeerId(4)].links.back().bytes_per_second = 1e6f;
  CHECK(is_direct());
  for (std::uint64_t peer = 6; peer <= 65; ++peer) answers[PeerId(peer)].version.step = 9;
  CHECK_FALSE(is_direct());
}

TEST_CASE("a slow peer takes no fewer samples than a plan must give to each", "[unit]") {
  Answers answers;
  for (std::uint64_t peer = 1; peer <= 4; ++peer) answers[PeerId(peer)].speed = 100;
  answers[PeerId(4)].speed = 10;
  const auto shares = [&](std::uint32_t batch_min) {
    const ReplicaPlanner planner({.batch = 32, .batch_max = 128, .batch_min = batch_min});
    return planner.plan(answers, nullptr)->shares;
  };
  CHECK(shares(1) == std::vector<std::uint32_t>{42, 41, 41, 4});
  CHECK(shares(8) == std::vector<std::uint32_t>{40, 40, 40, 8});
  // No plan can give all peers together more than the batch.
  CHECK(shares(1000) == std::vector<std::uint32_t>{32, 32, 32, 32});
}

TEST_CASE("nobody begins a generation whose way to sum it does not know", "[unit]") {
  const auto begins = [](std::uint8_t algorithm) {
    const ReplicaPlanner planner({});
    Agreement second(PeerId{2}, 0, {}, signer_of(PeerId{2}));
    Effects out;
    second.set_candidates(Time(0s), {PeerId{1}, PeerId{2}});
    const GenerationId ballot{.number = 1, .proposer = PeerId{1}};
    second.receive(Time(0s), PeerId{1}, Message(Propose{ballot}), planner, out);
    const std::vector<PeerId> both = {PeerId{1}, PeerId{2}};
    second.receive(Time(0s), PeerId{1},
                   Message(installed({.id = ballot,
                                      .order = both,
                                      .sources = both,
                                      .shares = {1, 1},
                                      .algorithm = algorithm})),
                   planner, out);
    return second.generation() != nullptr;
  };
  for (int number = 0; number < 256; ++number) {
    CHECK(begins(static_cast<std::uint8_t>(number)) ==
          (number < static_cast<int>(reduce_algorithms().size())));
  }
}

TEST_CASE("assignments that are not those of a whole pipeline begin no generation", "[unit]") {
  const auto assignment = [](std::uint32_t stage, std::uint64_t carrier) {
    return StageAssignment{.stage = stage, .carrier = PeerId{carrier}, .source = PeerId{carrier}};
  };
  const auto begins = [](std::vector<StageAssignment> assignments) {
    const StagePlanner planner({1, 1}, 8, {});
    Agreement second(PeerId{2}, 0, {}, signer_of(PeerId{2}));
    Effects out;
    second.set_candidates(Time(0s), {PeerId{1}, PeerId{2}});
    const GenerationId ballot{.number = 1, .proposer = PeerId{1}};
    second.receive(Time(0s), PeerId{1}, Message(Propose{ballot}), planner, out);
    const std::vector<PeerId> both = {PeerId{1}, PeerId{2}};
    second.receive(Time(0s), PeerId{1},
                   Message(installed({.id = ballot,
                                      .order = both,
                                      .sources = both,
                                      .shares = {1, 1},
                                      .version = {},
                                      .assignments = std::move(assignments)})),
                   planner, out);
    return second.generation() != nullptr;
  };
  CHECK(begins({assignment(0, 1), assignment(1, 2)}));
  CHECK(begins({assignment(0, 1), assignment(1, 1), assignment(1, 2)}));
  // Here a stranger carries a stage.
  CHECK_FALSE(begins({assignment(0, 1), assignment(1, 2), assignment(1, 3)}));
  CHECK_FALSE(begins({assignment(1, 1), assignment(1, 2)}));  // Here no peer has the first stage.
  CHECK_FALSE(begins({assignment(0, 1), assignment(1, 2), assignment(1, 2)}));
  CHECK_FALSE(begins({assignment(0, 2), assignment(1, 2), assignment(2, 1)}));
  CHECK_FALSE(begins({assignment(0, 1), assignment(1, 1)}));  // Here this peer has no stage.
  // If micro-batches go both ways, a peer also carries the mirror image of its stage.
  const StagePlanner both_ways({1, 1}, 8, {.mirrored = true});
  Generation generation{.order = {PeerId{1}, PeerId{2}}, .shares = {1, 1}};
  generation.assignments = {assignment(0, 1), assignment(1, 2)};
  CHECK(both_ways.problem(generation) == "it assigns a stage without its mirror image");
  generation.assignments = {assignment(0, 1), assignment(1, 1)};
  CHECK(both_ways.problem(generation).empty());
  // Slices belong to their stage and have no mirror images of their own.
  const StagePlanner in_groups(
      {1, 1}, 8, {.mirrored = true, .parts = StageParts({2, 2}), .group = {.least = 1, .most = 2}});
  generation.assignments = {assignment(0, 1), assignment(1, 1), assignment(2, 1), assignment(4, 1),
                            assignment(0, 2), assignment(1, 2), assignment(3, 2), assignment(5, 2)};
  CHECK(in_groups.problem(generation).empty());
}

TEST_CASE("a peer that is named as a source can end a generation in which it takes no part",
          "[unit]") {
  const StagePlanner planner({1, 1}, 8, {});
  const std::vector<PeerId> both = {PeerId{1}, PeerId{2}};
  Agreement second(PeerId{2}, 0, {}, signer_of(PeerId{2}));
  Effects out;
  second.set_candidates(Time{}, {PeerId{1}, PeerId{2}, PeerId{3}, PeerId{4}});
  const GenerationId ballot{.number = 1, .proposer = PeerId{1}};
  const auto hear = [&](std::uint64_t from, const Message& message) {
    second.receive(Time{}, PeerId{from}, message, planner, out);
  };
  hear(1, Propose{ballot});
  hear(1, installed({.id = ballot,
                     .order = both,
                     .sources = both,
                     .shares = {1, 1},
                     .version = {},
                     .assignments = {{0, PeerId{1}, PeerId{1}}, {1, PeerId{2}, PeerId{3}}}}));
  REQUIRE(second.generation() != nullptr);
  hear(4, EndGeneration{ballot, {PeerId{1}}});
  CHECK(second.generation() != nullptr);
  hear(3, EndGeneration{ballot, {PeerId{1}}});
  CHECK(second.generation() == nullptr);
}

TEST_CASE("peers of a pipeline that all leave end at the newest version of which they have all",
          "[unit]") {
  const ModelVersion seventh{.step = 7, .samples = 7, .lineage = 7};
  const ModelVersion eighth{.step = 8, .samples = 8, .lineage = 8};
  const StagePlanner planner({1, 1}, 8, {});
  const std::vector<PeerId> both = {PeerId{1}, PeerId{2}};
  const auto leaving = [&](std::uint32_t stage, const ModelVersion& version,
                           const std::vector<ModelVersion>& has) {
    Agreement peer(both[stage], 1, {}, signer_of(both[stage]));
    peer.set_version(version);
    std::vector<StageHolding> holdings;
    for (const ModelVersion& one : has) holdings.push_back({stage, true, one});
    peer.set_holdings(holdings);
    peer.set_leaving();
    peer.set_candidates(Time{}, both);
    return peer;
  };
  // Both peers have done their part of the eighth step, but the second peer does not know that the
  // first has done so.
  Agreement first = leaving(0, eighth, {eighth});
  Agreement second = leaving(1, seventh, {seventh, eighth});
  Effects out;
  first.disturb(Time{}, {}, out);
  first.tick(Time{}, planner, out);
  Effects answers;
  for (const Outgoing& sent : out.messages) {
    second.receive(Time{}, both[0], sent.message, planner, answers);
  }
  out = {};
  for (const Outgoing& sent : answers.messages) {
    first.receive(Time{}, both[1], sent.message, planner, out);
  }
  for (const Outgoing& sent : out.messages) {
    second.receive(Time{}, both[0], sent.message, planner, answers);
  }
  for (const Agreement* peer : {&first, &second}) {
    REQUIRE(peer->last_generation() != nullptr);
    CHECK(peer->last_generation()->version == eighth);
  }
}

TEST_CASE("peers of a pipeline that leave end even if the only one that stays is left out",
          "[unit]") {
  const ModelVersion seventh{.step = 7, .samples = 56, .lineage = 7};
  const StagePlanner planner({1, 1}, 8, {});
  const std::vector<PeerId> all = {PeerId{1}, PeerId{2}, PeerId{3}};
  Agreement first(PeerId{1}, 1, {}, signer_of(PeerId{1}));
  first.set_version(seventh);
  first.set_holdings({{0, true, seventh}});
  first.set_leaving();
  first.set_candidates(Time{}, all);
  Effects out;
  // A single accuser among three peers cannot exclude the first peer, and is left out itself.
  first.receive(Time{}, PeerId{3}, Message(Refusals{{PeerId{1}}}), planner, out);
  first.disturb(Time{}, {}, out);
  first.tick(Time{}, planner, out);
  out = {};
  for (const PeerId other : {PeerId{2}, PeerId{3}}) {
    const Answer answer{
        .version = seventh, .holdings = {{1, true, seventh}}, .leaves = other == PeerId{2}};
    first.receive(Time{}, other, Message(Promise{first.promised(), answer}), planner, out);
  }
  REQUIRE(first.last_generation() != nullptr);
  CHECK(first.last_generation()->version == seventh);
  CHECK(std::ranges::count_if(out.messages, [](const Outgoing& sent) {
          const auto* install = std::get_if<Install>(&sent.message);
          return install != nullptr && install->generation.order.empty();
        }) == 2);
}

TEST_CASE("peers of a pipeline that all leave do not end at a version that a single one claims",
          "[unit]") {
  const bool is_left_out = GENERATE(true, false);
  const ModelVersion seventh{.step = 7, .samples = 56, .lineage = 7};
  const ModelVersion claimed{.step = 9, .samples = 72, .lineage = 99};
  const StagePlanner planner({1, 1}, 8, {});
  Agreement first(PeerId{1}, 1, {}, signer_of(PeerId{1}));
  first.set_version(seventh);
  first.set_holdings({{0, true, seventh}});
  first.set_leaving();
  first.set_candidates(Time{}, {PeerId{1}, PeerId{2}, PeerId{3}});
  Effects out;
  if (is_left_out) first.receive(Time{}, PeerId{3}, Message(Refusals{{PeerId{1}}}), planner, out);
  first.disturb(Time{}, {}, out);
  first.tick(Time{}, planner, out);
  const Answer honest{.version = seventh, .holdings = {{1, true, seventh}}, .leaves = true};
  const Answer hostile{.version = claimed,
                       .holdings = {{0, true, claimed}, {1, true, claimed}},
                       .leaves = !is_left_out};
  first.receive(Time{}, PeerId{2}, Message(Promise{first.promised(), honest}), planner, out);
  first.receive(Time{}, PeerId{3}, Message(Promise{first.promised(), hostile}), planner, out);
  REQUIRE(first.last_generation() != nullptr);
  CHECK(first.last_generation()->order.empty());
  CHECK(first.last_generation()->version == seventh);
}

TEST_CASE("proposers that do not know of each other end in one generation", "[unit]") {
  for (const Duration latency : {Duration(1ms), Duration(200ms), Duration(2s)}) {
    // Each of the first three peers believes that it is the first.
    Agreeing world({.peers = 6, .latency = latency, .jitter = latency / 4, .heals_at = 0s}, 1);
    world.blind(1, {0});
    world.blind(2, {0, 1});
    world.run_until(Time(10s));
    for (std::size_t i = 0; i < 3; ++i) world.blind(i, {});
    while (!world.is_one() && world.broken.empty() && world.now() < Time(120s)) {
      world.run_until(world.now() + 100ms);
    }
    INFO("latency " << seconds(latency) << " s, at " << seconds(world.now().time_since_epoch()));
    CHECK(world.broken == "");
    CHECK(world.is_one());
  }
}

TEST_CASE("a peer that was stopped in a ballot soon answers its proposer again", "[unit]") {
  const auto at = [](double seconds) { return Time(from_seconds(seconds)); };
  const StandInSigner signer(PeerId{2}, 7);
  Agreement stopped(PeerId{2}, 5, {}, signer);
  const ReplicaPlanner planner(ReplicaPlanner::Options{});
  stopped.set_candidates(at(0), {PeerId{1}, PeerId{2}});
  Effects out;
  stopped.disturb(at(1), {}, out);
  stopped.receive(at(1.01), PeerId{1}, Propose{{1, 9, PeerId{1}}}, planner, out);
  REQUIRE(stopped.promised().proposer == PeerId{1});
  // The process stood still for ten minutes, and its timer comes before the messages.
  stopped.tick(at(601), planner, out);
  REQUIRE(stopped.promised().proposer == PeerId{2});
  bool answers = false;
  for (double time = 602; time < 660 && !answers; time += 10) {
    const GenerationId next{stopped.promised().number + 1, 9, PeerId{1}};
    stopped.receive(at(time), PeerId{1}, Propose{next}, planner, out);
    answers = stopped.promised() == next;
  }
  CHECK(answers);
}

TEST_CASE("a resumed run counts the samples of its checkpoint, whatever its batch is now",
          "[unit]") {
  const ReplicaPlanner planner({.batch = 128, .batch_max = 128});
  CHECK(planner.samples_at(256, 8192) == 8192);
  CHECK(planner.samples_at(256, 0) == 256 * 128);
  // No other peer would believe more samples than the steps can have.
  CHECK(planner.samples_at(0, 5000) == 0);
}

}  // namespace gv
