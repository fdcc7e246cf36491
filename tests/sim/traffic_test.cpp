// Bytes of small messages in a virtual run, by kind.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "net/wire.hpp"
#include "sim/virtual/traffic_tally.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

TrafficTally tally_of(const Simulator::Options& options) {
  Simulator world(options, idle_peers(options));
  TrafficTally tally;
  world.watch(tally);
  world.run(Time(options.scenario.until));
  return tally;
}

/// Counts the messages of four peers that gossip for ten seconds. If the swarm has a budget, their
/// data are leased.
TrafficTally tally_of(std::uint64_t budget) {
  Simulator::Options options = small_world(4, 1);
  options.scenario.until = 10s;
  options.node.course.wait_for_peers = 4;
  options.node.course.work = {.budget = budget, .batch = 1, .weigh_max = 1, .chunk_steps = 8};
  return tally_of(options);
}

/// Counts the bytes of small messages that each peer sends and receives.
class PeerBytes : public Watcher {
 public:
  explicit PeerBytes(std::size_t peers) : bytes_(peers) {}
  void on_input(const Simulator&, const Input& input) override {
    if (input.message != nullptr) bytes_[input.peer] += bytes_on_link(*input.message);
  }
  void on_effects(const Simulator&, PeerNumber peer, const NodeEffects& effects) override {
    for (const Outgoing& out : effects.messages) bytes_[peer] += bytes_on_link(out.message);
  }

  /// Runs the world for `lasts`. Returns the mean kilobytes a second of each of the first `peers`
  /// peers.
  double rate(Simulator& world, std::size_t peers, Duration lasts) const {
    const auto sum = [&] {
      std::uint64_t bytes = 0;
      for (std::size_t peer = 0; peer < peers; ++peer) bytes += bytes_[peer];
      return bytes;
    };
    const std::uint64_t before = sum();
    world.run(world.now() + lasts);
    return static_cast<double>(sum() - before) / seconds(lasts) / static_cast<double>(peers) / 1e3;
  }

 private:
  std::vector<std::uint64_t> bytes_;
};

/// Peers with a latency of 20 ms between them. Each takes part in more than three exchanges in two
/// seconds.
Simulator::Options large_swarm(std::size_t peers) {
  Simulator::Options options = small_world(peers, 1);
  options.scenario.until = 1h;
  options.scenario.links = {every_link({.latency = 20ms})};
  return options;
}

}  // namespace

TEST_CASE("a message has as many bytes as on a control link", "[sim]") {
  Member member{.id = PeerId{7}, .name = "seven", .address = "192.0.2.1:7000"};
  member.progress.work = WorkDone{.samples = 5,
                                  .ledger = LedgerEntry{1, {{2, 3}}, {{{5, 6}, true}}},
                                  .verdict = TargetVerdict{}};
  const Message ping = Ping{1, member.progress, {member, member}, 0};
  CHECK(bytes_on_link(ping) == encode(ping).size());
  const Message promise = Promise{.ballot = {1, 2, PeerId{3}}, .answer = {.links = {{}, {}}}};
  CHECK(bytes_on_link(promise) == encode(promise).size());
  const Message offer = Offer{};
  CHECK(bytes_on_link(offer) == encode(offer).size());
}

TEST_CASE("small messages are counted by kind, and what of them is about the common work",
          "[sim]") {
  const TrafficTally leased = tally_of(1'000'000);
  std::uint64_t sum = 0;
  for (const auto& [name, kind] : leased.kinds()) sum += kind.bytes;
  CHECK(sum == leased.bytes());
  CHECK(leased.kinds().at("Ping").messages > 100);
  CHECK(leased.kinds().contains("Commit"));
  CHECK(leased.work_bytes() > 0);
  CHECK(leased.work_bytes() < leased.bytes());
  CHECK(leased.longest() > 100);
  CHECK(leased.longest() <= 65536);
  const std::string text = leased.to_json(40);
  CHECK(text.find("\"work_bytes_a_second_and_peer\"") != std::string::npos);
  CHECK(tally_of(0).work_bytes() == 0);
}

TEST_CASE(
    "ten peers that lease chunks of a quarter of a second report their work in 800 bytes a "
    "second",
    "[sim]") {
  Simulator::Options options = small_world(10, 1);
  options.scenario.until = 30s;
  options.scenario.step = 10ms;
  options.scenario.links = {every_link({.latency = 10ms})};
  options.node.course.wait_for_peers = 10;
  options.node.course.work = {.budget = 64'000'000, .batch = 64, .weigh_max = 1, .chunk_steps = 25};
  const TrafficTally tally = tally_of(options);
  CHECK(tally.work_bytes() > 0);
  CHECK(tally.work_bytes() <= 800 * 10 * 30);
}

TEST_CASE("control traffic of a training peer stays below its bound", "[sim]") {
  for (const auto& [peers, most] :
       {std::pair<std::size_t, double>{64, 8}, std::pair<std::size_t, double>{100, 10}}) {
    Simulator::Options options = large_swarm(peers);
    options.node.course.work = {.budget = endless_steps,
                                .batch = 16,
                                .data = 1000,
                                .all_data = 1000 * peers,
                                .weigh_max = 1};
    Simulator world(options, idle_peers(options));
    PeerBytes counted(peers);
    world.watch(counted);
    // After 30 seconds, all peers know each other.
    world.run(Time(30s));
    const double rate = counted.rate(world, peers, 30s);
    std::printf("control traffic of each of %zu training peers: %.2f kB/s\n", peers, rate);
    CHECK(rate > 1);
    CHECK(rate <= most);
  }
}

TEST_CASE("control traffic of a peer that has finished stays below its bound", "[sim]") {
  for (const std::size_t peers : {64U, 100U}) {
    Simulator::Options options = large_swarm(peers);
    // Peers leave when all have finished. To keep them, the last one trains without end.
    options.steps.assign(peers, 500);
    options.steps.back() = endless_steps;
    options.node.course.linger = 1h;
    Simulator world(options, idle_peers(options));
    PeerBytes counted(peers);
    world.watch(counted);
    world.run(Time(60s));
    for (PeerNumber number = 0; number + 1 < peers; ++number) {
      REQUIRE(world.peer(number).state == PeerState::up);
      REQUIRE(world.peer(number).node->membership().self().progress.phase == Phase::done);
    }
    const double rate = counted.rate(world, peers - 1, 2min);
    std::printf("control traffic of each of %zu idle peers: %.2f kB/s\n", peers, rate);
    CHECK(rate > 0.1);
    CHECK(rate <= 2);
  }
}

}  // namespace gv
