// What a real peer prints: what it waits for, what it trains on, and why it ends.
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/process/swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// A run of the built-in task. `run` and `data` are additional lines of the [run] and [data]
/// tables.
std::string config_of(const std::string& run, const std::string& data = "") {
  return "[run]\n" + run + "[data]\nkind = \"generated\"\n" + data +
         "[data.generated]\nsamples = 4000\n[model]\nkind = \"mlp\"\nhidden = [32]\n";
}

bool says(const Swarm& swarm, std::size_t number, const std::string& text) {
  return swarm.output(number).find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a peer says in its last line why it ended and where its model is", "[process]") {
  Swarm common(1, config_of("budget = \"swarm\"\nepochs = 3\n"));
  common.start(0);
  CHECK(common.wait_for_end(0, 60s).exit_code == 0);
  CHECK(common.output(0).ends_with("ended: all 3 passes are done; the common model is in " +
                                   (common.folder(0) / "final.safetensors").string() + "\n"));

  Swarm clock(1, config_of("budget = \"swarm\"\nepochs = 100000\nwall_s = 3\n"));
  clock.start(0);
  CHECK(clock.wait_for_end(0, 60s).exit_code == 0);
  CHECK(says(clock, 0, "\nended: the 3 s of run.wall_s are over; the common model is in "));

  Swarm own(1, config_of("budget = \"peer\"\nsteps = 100\n"));
  own.start(0);
  CHECK(own.wait_for_end(0, 60s).exit_code == 0);
  CHECK(says(own, 0, "\nended: all 100 steps are done; "));

  Swarm endless(1, endless_config());
  endless.start(0);
  REQUIRE(endless.reach({0}, 10));
  endless.signal(0, SIGTERM);
  CHECK(endless.wait_for_end(0, 60s).exit_code == 0);
  CHECK(endless.output(0).ends_with("ended: left on request; the last checkpoint is in " +
                                    (endless.folder(0) / "checkpoints").string() + "\n"));
}

TEST_CASE("a peer that may not begin yet says how many peers are missing and how long it waits",
          "[process]") {
  Swarm swarm(3, endless_config());
  swarm.start(0, {.extra = {"--wait-for", "3"}});
  CHECK(eventually([&] { return says(swarm, 0, "\nwaits for 2 more peers, at most "); }, 30s));
  swarm.start(1, {.extra = {"--wait-for", "3"}});
  CHECK(eventually([&] { return says(swarm, 0, "\nwaits for 1 more peer, at most "); }, 30s));
}

TEST_CASE("a peer that is done says which peer it waits for", "[process]") {
  Swarm swarm(2, config_of("budget = \"swarm\"\nsteps = 3000\npeers = 2\nlinger_s = 40.0\n",
                           "partition = \"leased\"\n") +
                     "[metrics]\nevery_s = 1\n");
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1}, 5));
  swarm.signal(1, SIGSTOP);
  CHECK(eventually([&] { return says(swarm, 0, "waits for peer-1, at most "); }, 60s));
  swarm.signal(1, SIGCONT);
}

TEST_CASE("a peer names the part of the data that it takes and warns of shards without a peer",
          "[process]") {
  Swarm shards(3, config_of("budget = \"swarm\"\nepochs = 1000\n"));
  shards.start(0);
  REQUIRE(shards.reach({0}, 1));
  CHECK(says(shards, 0, "trains on shard 0 of 3, "));
  CHECK(says(shards, 0, "training begins with 1 of 3 peers, and each has its own shard"));

  Swarm leased(3, config_of("budget = \"swarm\"\nepochs = 1000\n", "partition = \"leased\"\n"));
  leased.start(0);
  REQUIRE(leased.reach({0}, 1));
  CHECK(says(leased, 0, "takes chunks of all 4000 samples, "));
  CHECK_FALSE(says(leased, 0, "training begins with"));
}

TEST_CASE("a peer that is asked to leave while it reads its data ends cleanly", "[process]") {
  std::string config = endless_config();
  config.replace(config.find("samples = 4000"), 14, "samples = 2000000");
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "config.toml") << config;
  const auto own = folder.path() / "own";
  const auto said = folder.path() / "said";
  ChildProcess peer({grapevine_binary(), "create", (folder.path() / "config.toml").string(),
                     "--listen", "127.0.0.1:0", "--folder", own.string()},
                    said);
  REQUIRE(eventually([&] { return std::filesystem::exists(own / "lock"); }, 30s));
  peer.signal(SIGTERM);
  REQUIRE(eventually([&] { return peer.ending().has_value(); }, 60s));
  CHECK(peer.ending()->signal == 0);
  CHECK(peer.ending()->exit_code == 0);
  CHECK(read_text(said).find("ended: left on request before training began\n") !=
        std::string::npos);
}

}  // namespace gv
