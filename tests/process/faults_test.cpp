// Real peers are killed, stopped, restarted and join late, while the others continue to train.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <set>

#include "tests/process/swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

}  // namespace

TEST_CASE("kill -9 of the first peer leaves the others training and it can come back",
          "[process]") {
  Swarm swarm(3, endless_config());
  swarm.start_all();
  REQUIRE(swarm.exchanges_go_on(0));
  swarm.kill(0);
  REQUIRE(eventually(
      [&] { return swarm.state_of(1, 0) == "dead" && swarm.state_of(2, 0) == "dead"; }, 30s));
  CHECK(swarm.exchanges_go_on(1));
  CHECK(swarm.exchanges_go_on(2));

  // The newcomer may ask either of the others, and each has its own pace.
  const std::uint64_t others = std::min(swarm.step(1), swarm.step(2));
  swarm.start(0);
  REQUIRE(eventually(
      [&] { return swarm.state_of(1, 0) == "alive" && swarm.state_of(2, 0) == "alive"; }, 20s));
  // The peer requested the current model instead of starting with its own initial one.
  REQUIRE(eventually([&] { return swarm.status(0)["gossip"].value("models_fetched", 0ULL) == 1; },
                     20s));
  CHECK(swarm.step(0) >= others);
  CHECK(swarm.exchanges_go_on(0));
}

TEST_CASE("a peer stopped for two seconds is not declared dead and declares nobody dead",
          "[process]") {
  Swarm swarm(3, endless_config());
  swarm.start_all();
  REQUIRE(swarm.exchanges_go_on(0));
  swarm.signal(1, SIGSTOP);
  // This waits for the full duration of the stop, which nothing can cut short.
  eventually([] { return false; }, 2s);
  swarm.signal(1, SIGCONT);
  CHECK(swarm.exchanges_go_on(1));
  // This wait is longer than any suspicion that could still be pending.
  eventually([] { return false; }, 6s);
  for (std::size_t number = 0; number < 3; ++number) {
    CHECK(swarm.events(number, "member_dead").empty());
    for (std::size_t other = 0; other < 3; ++other) CHECK(swarm.state_of(number, other) == "alive");
  }
}

TEST_CASE("a peer stopped for a minute is declared dead and refutes and catches up when it wakes",
          "[process][waits]") {
  Swarm swarm(3, endless_config());
  swarm.start_all();
  REQUIRE(swarm.exchanges_go_on(0));
  const auto stopped_at = std::chrono::steady_clock::now();
  swarm.signal(2, SIGSTOP);
  CHECK(eventually([&] { return swarm.state_of(0, 2) == "dead" && swarm.state_of(1, 2) == "dead"; },
                   40s));
  CHECK(swarm.exchanges_go_on(0));
  eventually([&] { return std::chrono::steady_clock::now() - stopped_at > 60s; }, 70s);
  const std::uint64_t others = swarm.step(0);
  swarm.signal(2, SIGCONT);
  CHECK(eventually(
      [&] { return swarm.state_of(0, 2) == "alive" && swarm.state_of(1, 2) == "alive"; }, 10s));
  CHECK(eventually([&] { return swarm.step(2) >= others; }, 20s));
  CHECK(swarm.exchanges_go_on(2));
}

TEST_CASE("a peer that joins late downloads the current model", "[process]") {
  Swarm swarm(3, endless_config());
  swarm.start(0, {.extra = {"--wait-for", "2"}});
  swarm.start(1, {.extra = {"--wait-for", "2"}});
  REQUIRE(eventually([&] { return swarm.step(0) > 3000 && swarm.step(1) > 3000; }, 30s));
  swarm.start(2);
  REQUIRE(eventually([&] { return swarm.step(2) > 3000; }, 20s));
  CHECK(swarm.status(2)["gossip"].value("models_fetched", 0ULL) == 1);
  CHECK(swarm.exchanges_go_on(2));
}

TEST_CASE("a request to leave, even if delivered twice, ends in a checkpoint and the others know",
          "[process]") {
  Swarm swarm(2, endless_config());
  swarm.start_all();
  REQUIRE(swarm.exchanges_go_on(0));
  // The peer is told to leave twice, as if by a launcher and by a signal to its process group.
  swarm.signal(1, SIGINT);
  swarm.signal(1, SIGTERM);
  const Ending ending = swarm.wait_for_end(1, 10s);
  CHECK(ending.signal == 0);
  CHECK(ending.exit_code == 0);
  CHECK(eventually([&] { return swarm.state_of(0, 1) == "left"; }, 5s));
  CHECK(swarm.events(0, "member_dead").empty());
  bool found = false;
  for (const auto& entry : std::filesystem::directory_iterator(swarm.folder(1) / "checkpoints")) {
    found = found || entry.path().extension() == ".safetensors";
  }
  CHECK(found);
}

TEST_CASE("the integer conservation checksums of all peers sum to what they started with",
          "[process]") {
  std::string config = endless_config();
  config.replace(config.find("100000000"), 9, "100000");
  Swarm swarm(4, config);
  swarm.start_all();
  std::set<std::int64_t> sums;
  std::int64_t now = 0;
  std::int64_t at_start = 0;
  for (std::size_t number = 0; number < 4; ++number) {
    CHECK(swarm.wait_for_end(number, 120s).exit_code == 0);
    std::ifstream in(swarm.folder(number) / "result.json");
    const auto result = nlohmann::json::parse(in);
    for (const auto& lane : result["conservation_checksum"]) now += lane.get<std::int64_t>();
    for (const auto& lane : result["conservation_checksum_at_start"])
      at_start += lane.get<std::int64_t>();
    CHECK(result["exchanges"].value("committed", 0ULL) > 10);
  }
  CHECK(now == at_start);
}

TEST_CASE("a peer that can write no checkpoint says so and trains on", "[process]") {
  std::string config = endless_config();
  config.replace(config.find("every_steps = 0"), 15, "every_steps = 500");
  Swarm swarm(2, config);
  // A file takes the place of the checkpoint folder. Not even root can write below a file.
  std::ofstream(swarm.folder(1) / "checkpoints") << "x";
  swarm.start_all();
  REQUIRE(eventually([&] { return swarm.events(1, "save_failed").size() >= 3; }, 30s));
  CHECK(swarm.output(1).find("checkpoint not written") != std::string::npos);
  CHECK(swarm.output(1).find(". Free space on the disk, or make the folder writable.\n") !=
        std::string::npos);
  CHECK(swarm.events(0, "save_failed").empty());
  CHECK(swarm.exchanges_go_on(1));
  swarm.signal(1, SIGTERM);
  // The peer's last model is not on the disk, so its exit code must report a failure.
  CHECK(swarm.wait_for_end(1, 10s).exit_code == 1);
}

}  // namespace gv
