// Bytes of small messages in a virtual run, by kind.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "net/wire.hpp"
#include "sim/virtual/traffic_tally.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// Four peers in gossip for ten seconds. With a budget of the swarm their data are leased.
TrafficTally tally_of(std::uint64_t budget) {
  Simulator::Options options = small_world(4, 1);
  options.scenario.until = 10s;
  options.node.course.wait_for_peers = 4;
  options.node.course.work = {.budget = budget, .batch = 1, .weigh_max = 1, .chunk_steps = 8};
  Simulator world(options, idle_peers(options));
  TrafficTally tally;
  world.watch(tally);
  world.run(Time(options.scenario.until));
  return tally;
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

}  // namespace gv
