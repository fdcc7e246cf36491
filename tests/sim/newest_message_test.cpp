// Tests which waiting transfers become useless when newer ones arrive. If rounds are shorter than
// the time a message spends on a link, either only the newest message counts, or all messages do.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <set>

#include "consensus/message/effects.hpp"
#include "sim/virtual/simulator.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t peers = 6;
constexpr std::uint64_t seed = 11;
constexpr std::uint64_t budget = 400;
/// The number of parameters. A message takes three rounds of 20 ms on a link of the bandwidth
/// below.
constexpr std::size_t dimension = 4096;
constexpr std::size_t message_bytes = 4 * dimension + 16;
constexpr double bandwidth_mbit = 8e-6 * message_bytes / 0.060;

/// Records the ages of the mixed messages, in rounds of the peer that mixes them.
class Ages : public Watcher {
 public:
  void on_effects(const Simulator&, PeerNumber, const NodeEffects& effects) override {
    for (const Transfer& transfer : effects.transfers) {
      sent += transfer.payload.bytes.size() == message_bytes;
    }
  }
  void on_job(const Simulator&, PeerNumber, const Job& job) override {
    const auto* mix = first_of<task::MixRound>(job.tasks);
    if (mix == nullptr) return;
    for (const MixMessage& message : mix->arrived) {
      ++arrived;
      if (message.round > mix->round) continue;
      oldest = std::max(oldest, mix->round - message.round);
    }
  }
  std::uint64_t sent = 0;
  std::uint64_t arrived = 0;
  std::uint64_t oldest = 0;
};

struct Outcome {
  std::uint64_t oldest = 0;
  std::uint64_t arrived = 0;
  std::uint64_t sent = 0;        ///< Messages made for neighbours.
  std::uint64_t superseded = 0;  ///< Messages dropped in favour of newer ones.
  std::size_t whole = 0;         ///< Peers that have taken all their steps.
  double rounds_a_second = 0;
  double furthest = 0;  ///< Largest distance of a model from the common optimum.
};

Outcome over_slow_links(const MixRule& rule) {
  Simulator::Options options = small_world(peers, seed, dimension);
  options.node.mode = ModeKind::mixing;
  options.node.course.wait_for_peers = peers;
  options.node.course.steps = budget;
  options.node.mixing.rule = rule;
  options.node.mixing.state_elements = dimension;
  options.scenario.links = {every_link({.latency = 5ms, .bandwidth = bandwidth_mbit})};
  const QuadraticSpec spec{.dimension = dimension, .noise = 0, .disagreement = 0.01};
  Simulator world(options, [&](std::size_t peer) {
    auto workload = quadratic_workload(spec, peer);
    workload->mix_by(rule, seed);
    return workload;
  });
  Ages ages;
  world.watch(ages);
  const auto is_done = [&](PeerNumber number) {
    const auto& work = world.peer(number).work;
    return work && work->step() >= budget;
  };
  do {
    world.run(world.now() + 100ms);
  } while (world.now() < Time(2min) && !(is_done(0) && is_done(1) && is_done(2)));
  Outcome outcome{.rounds_a_second = budget / seconds(world.now().time_since_epoch())};
  world.run(world.now() + 20s);
  const std::vector<double> optimum = common_optimum(spec, peers);
  for (PeerNumber number = 0; number < peers; ++number) {
    outcome.whole += is_done(number);
    const auto& peer = world.peer(number);
    double squares = 0;
    for (std::size_t k = 0; k < dimension; ++k) {
      squares += std::pow(peer.work->parameters()[k] - optimum[k], 2);
    }
    outcome.furthest = std::max(outcome.furthest, std::sqrt(squares));
  }
  outcome.sent = ages.sent;
  outcome.oldest = ages.oldest;
  outcome.arrived = ages.arrived;
  outcome.superseded = world.counts().superseded;
  return outcome;
}

}  // namespace

TEST_CASE("work of another generation makes waiting work useless and states and exchanges do not",
          "[unit]") {
  using enum TransferKind;
  const auto transfer = [](TransferKind kind, std::uint64_t session) {
    return Transfer{.to = PeerId{2}, .id = {PeerId{1}, session, 1, kind}, .payload = {}};
  };
  const std::set<TransferKind> work = {piece, probe, pass, mixing};
  for (const TransferKind newer : {exchange, state, copy, piece, probe, pass, mixing}) {
    for (const TransferKind waiting : {exchange, state, copy, piece, probe, pass, mixing}) {
      INFO(static_cast<int>(newer) << " after " << static_cast<int>(waiting));
      const bool are_work = work.contains(newer) && work.contains(waiting);
      CHECK(supersedes(transfer(newer, 8), transfer(waiting, 7)) == are_work);
      CHECK_FALSE(supersedes(transfer(newer, 7), transfer(waiting, 7)));
      Transfer begun = transfer(waiting, 7);
      begun.offset = 4;
      CHECK_FALSE(supersedes(transfer(newer, 8), begun));
    }
  }
}

TEST_CASE("of messages of which the newest suffices one that waits gives way to the next",
          "[unit]") {
  for (const bool newer : {false, true}) {
    for (const bool waiting : {false, true}) {
      for (const std::uint64_t offset : {0, 4}) {
        INFO(newer << " after " << waiting << ", offset " << offset);
        const Transfer next{.to = PeerId{2},
                            .id = mixing_id(PeerId{1}, 7, 2),
                            .payload = {},
                            .superseded_by_next = newer};
        const Transfer old{.to = PeerId{2},
                           .id = mixing_id(PeerId{1}, 7, 1),
                           .payload = {},
                           .offset = offset,
                           .superseded_by_next = waiting};
        CHECK(supersedes(next, old) == (newer && waiting && offset == 0));
      }
    }
  }
}

TEST_CASE("who never waits hears what is a few rounds old however slow the links",
          "[sim][mixing]") {
  MixRule rule{.topology = {.kind = TopologyKind::exponential},
               .order = MixOrder::combine_then_adapt};
  rule.staleness = unbounded_staleness;
  rule.weigh_by_age = true;
  const Outcome outcome = over_slow_links(rule);
  CHECK(outcome.whole == peers);
  CHECK(outcome.rounds_a_second > 40);
  // A message travels for three rounds after waiting for at most three, and peers drift apart by
  // some rounds. If no messages were dropped, the age would grow by two rounds in every three.
  CHECK(outcome.oldest <= 12);
  // Each link drops two of every three messages.
  CHECK(outcome.superseded > outcome.sent / 2);
  CHECK(outcome.superseded < outcome.sent * 3 / 4);
  CHECK(outcome.arrived > outcome.sent / 4);
}

TEST_CASE("with bounded staleness newer models stand in for older ones and the bound holds",
          "[sim][mixing]") {
  MixRule rule{.topology = {.kind = TopologyKind::complete}, .order = MixOrder::combine_then_adapt};
  rule.staleness = 6;
  const Outcome outcome = over_slow_links(rule);
  CHECK(outcome.whole == peers);
  CHECK(outcome.superseded > 0);
  CHECK(outcome.oldest <= rule.staleness + 1);
  // Each link carries 16 messages a second, fewer than there are rounds.
  CHECK(outcome.rounds_a_second > 30);
}

TEST_CASE("where every message counts every message is sent", "[sim][mixing]") {
  MixRule pushes{.topology = {.kind = TopologyKind::one_peer_exponential},
                 .kind = MixKind::push_sum};
  pushes.staleness = 1;
  const MixRule waits{.order = MixOrder::combine_then_adapt};
  for (const MixRule& rule : {pushes, waits}) {
    const Outcome outcome = over_slow_links(rule);
    INFO(to_string(rule.kind));
    CHECK(outcome.whole == peers);
    CHECK(outcome.superseded == 0);
    // Messages of the last rounds are an exception, because no peer mixes them any more.
    CHECK(outcome.arrived + 4 * peers >= outcome.sent);
    // All models begin 64 away from the optimum, so lost parts of sums would leave them far off.
    CHECK(outcome.furthest < 1);
  }
}

}  // namespace gv
