// Peers in lockstep as real processes: killed, stopped, started again, all at once; the others go
// on and hold the same bits.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>

#include "peer/config.hpp"
#include "peer/task.hpp"
#include "tests/process/swarm.hpp"
#include "train/checkpoint/checkpoint.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

std::string lockstep(std::uint64_t steps, const std::string& extra = "") {
  return fmt::format(R"([run]
mode = "ring"
steps = {}
linger_s = 20
[data]
kind = "generated"
[data.generated]
samples = 4000
test_samples = 500
[model]
kind = "mlp"
hidden = [64]
[train]
batch = 32
)",
                     steps) +
         extra;
}

/// Operations that a peer has made or been sent.
bool reach(Swarm& swarm, const std::vector<std::size_t>& peers, std::uint64_t step) {
  return eventually(
      [&] {
        return std::ranges::all_of(peers,
                                   [&](std::size_t number) { return swarm.step(number) >= step; });
      },
      60s);
}

/// So many operations further from where the first of them is.
bool go_on(Swarm& swarm, const std::vector<std::size_t>& peers, std::uint64_t operations = 50) {
  return reach(swarm, peers, swarm.step(peers.front()) + operations);
}

std::size_t peers_in_epoch(Swarm& swarm, std::size_t number) {
  const auto began = swarm.events(number, "epoch_began");
  return began.empty() ? 0 : began.back().value("peers", std::size_t{0});
}

/// Seconds that each interruption cost a peer.
std::vector<double> seconds_lost(Swarm& swarm, std::size_t number) {
  std::vector<double> lost;
  for (const auto& event : swarm.events(number, "ring_resumed")) {
    lost.push_back(event.value("seconds_lost", -1.0));
  }
  return lost;
}

/// The newest checkpoint's parameters and what the optimiser keeps, as far as all have it alike:
/// with local steps each has its own.
std::vector<std::vector<float>> state_of(Swarm& swarm, std::size_t number) {
  ParsedConfig parsed = parse_config_file(swarm.config_file().string());
  parsed.config.run.peers = 4;
  const Task task = load_task(parsed.config, number);
  const Trainer trainer(task.trainer, task.shard);
  const LoadedCheckpoint loaded =
      load_newest_checkpoint(swarm.folder(number) / "checkpoints", trainer.layout());
  if (!loaded.checkpoint) return {};
  std::vector<std::vector<float>> state = {loaded.checkpoint->parameters};
  const bool local = parsed.config.ring.local.period > 1;
  for (const auto& [name, values] : loaded.checkpoint->optimizer.vectors) {
    if (!local || name == "outer_momentum") state.push_back(values);
  }
  return state;
}

/// Waits for all to make their last step and leave; whether all hold the same bits then.
bool end_alike(Swarm& swarm, const std::vector<std::size_t>& peers) {
  for (const std::size_t number : peers) {
    const Ending ending = swarm.wait_for_end(number, 100s);
    INFO(swarm.output(number));
    if (ending.exit_code != 0 || ending.signal != 0) return false;
  }
  const auto first = state_of(swarm, peers.front());
  if (first.empty()) return false;
  return std::ranges::all_of(peers,
                             [&](std::size_t number) { return state_of(swarm, number) == first; });
}

}  // namespace

TEST_CASE("when one in lockstep is killed the others go on within seconds and end with equal bits",
          "[process]") {
  const std::size_t victim = GENERATE(std::size_t{0}, std::size_t{2});
  Swarm swarm(4, lockstep(3000));
  swarm.start_all();
  REQUIRE(reach(swarm, {0, 1, 2, 3}, 100));
  swarm.kill(victim);
  std::vector<std::size_t> others = {0, 1, 2, 3};
  std::erase(others, victim);
  REQUIRE(go_on(swarm, others));
  for (const std::size_t number : others) {
    CHECK(peers_in_epoch(swarm, number) == 3);
    const std::vector<double> lost = seconds_lost(swarm, number);
    REQUIRE_FALSE(lost.empty());
    CHECK(lost.front() < 10);
    CHECK(swarm.events(number, "sum_refused").empty());
  }
  CHECK(end_alike(swarm, others));
}

TEST_CASE("two killed at once and then a third leave the last one working", "[process]") {
  Swarm swarm(4, lockstep(100000000));
  swarm.start_all();
  REQUIRE(reach(swarm, {0, 1, 2, 3}, 100));
  swarm.signal(1, SIGKILL);
  swarm.signal(2, SIGKILL);
  REQUIRE(go_on(swarm, {0, 3}));
  CHECK(peers_in_epoch(swarm, 0) == 2);
  swarm.kill(0);
  REQUIRE(go_on(swarm, {3}));
  CHECK(peers_in_epoch(swarm, 3) == 1);
}

TEST_CASE("one that is started again takes the others' state and ends with their bits",
          "[process]") {
  Swarm swarm(4, lockstep(6000));
  swarm.start_all();
  REQUIRE(reach(swarm, {0, 1, 2, 3}, 100));
  swarm.kill(1);
  REQUIRE(go_on(swarm, {0, 2, 3}));
  // New shares may have found it one operation behind in its first life.
  const std::size_t adopted = swarm.events(1, "state_adopted").size();
  swarm.start(1, {.extra = {"--resume"}});
  REQUIRE(go_on(swarm, {0, 1, 2, 3}));
  CHECK(swarm.events(1, "state_adopted").size() > adopted);
  CHECK(end_alike(swarm, {0, 1, 2, 3}));
}

TEST_CASE("one in lockstep that stands still is left out and takes part again when it wakes",
          "[process]") {
  Swarm swarm(4, lockstep(100000000));
  swarm.start_all();
  REQUIRE(reach(swarm, {0, 1, 2, 3}, 100));
  swarm.signal(3, SIGSTOP);
  REQUIRE(eventually([&] { return peers_in_epoch(swarm, 0) == 3; }, 30s));
  REQUIRE(go_on(swarm, {0, 1, 2}));
  swarm.signal(3, SIGCONT);
  REQUIRE(go_on(swarm, {0, 1, 2, 3}));
  CHECK(eventually([&] { return peers_in_epoch(swarm, 0) == 4; }, 30s));
}

TEST_CASE(
    "when one that makes local steps is killed the others end with one model and one momentum",
    "[process]") {
  Swarm swarm(3, lockstep(6004, "[ring]\nperiod = 8\nouter = \"nesterov\"\n"));
  swarm.start_all();
  REQUIRE(reach(swarm, {0, 1, 2}, 200));
  swarm.kill(1);
  REQUIRE(go_on(swarm, {0, 2}, 200));
  CHECK(peers_in_epoch(swarm, 0) == 2);
  CHECK(end_alike(swarm, {0, 2}));
  // Parameters and outer momentum, after a last operation of four steps.
  CHECK(state_of(swarm, 0).size() == 2);
}

TEST_CASE(
    "local steps killed and gone on with from a checkpoint end with the bits of a run without",
    "[process]") {
  const std::string config =
      lockstep(4000,
               "optimizer = \"adam\"\nlearning_rate = 0.001\n[checkpoint]\nevery_steps = 100\n"
               "[ring]\nperiod = 16\nlocal_after = 200\nouter = \"nesterov\"\n");
  Swarm whole(1, config);
  whole.start_all();
  REQUIRE(end_alike(whole, {0}));
  Swarm broken(1, config);
  broken.start_all();
  REQUIRE(reach(broken, {0}, 600));
  broken.kill(0);
  broken.start(0, {.extra = {"--resume"}});
  REQUIRE(end_alike(broken, {0}));
  CHECK(broken.events(0, "resumed").size() == 1);
  CHECK(state_of(broken, 0) == state_of(whole, 0));
}

TEST_CASE("a launched run in lockstep names whoever it lost and goes on without it", "[process]") {
  const TemporaryFolder folder;
  const auto file = [&](const std::string& name) { return (folder.path() / name).string(); };
  std::ofstream(file("run.toml")) << lockstep(4000);
  std::ofstream(file("faults.toml"))
      << "[scenario]\n[[scenario.fault]]\nkind = \"kill\"\nat_s = 0.3\npeers = 2\n";
  std::string output;
  const Ending ending = run_grapevine({"launch", "-n", "4", file("run.toml"), "--faults",
                                       file("faults.toml"), "--folder", file("run")},
                                      output, 120s);
  INFO(output);
  CHECK(ending.exit_code == 0);
  CHECK(output.find("4 peers train in lockstep") != std::string::npos);
  CHECK(output.find("lost peer-2: ") != std::string::npos);
  CHECK(output.find("is made by the other 3") != std::string::npos);
}

// By hand: `test_process "[kills]" -s` prints what a death costs. No figure is asserted: the
// machine decides.
TEST_CASE("deaths in lockstep cost little", "[.][kills]") {
  Swarm swarm(4, lockstep(100000000));
  swarm.start_all();
  REQUIRE(reach(swarm, {0, 1, 2, 3}, 100));
  std::vector<double> all;
  for (int round = 0; round < 40; ++round) {
    const std::size_t victim = static_cast<std::size_t>(round) % 4;
    std::vector<std::size_t> others = {0, 1, 2, 3};
    std::erase(others, victim);
    const std::size_t known = seconds_lost(swarm, others.front()).size();
    swarm.kill(victim);
    REQUIRE(eventually([&] { return seconds_lost(swarm, others.front()).size() > known; }, 60s));
    all.push_back(seconds_lost(swarm, others.front())[known]);
    swarm.start(victim, {.extra = {"--resume"}});
    REQUIRE(eventually([&] { return peers_in_epoch(swarm, others.front()) == 4; }, 60s));
    REQUIRE(go_on(swarm, {0, 1, 2, 3}, 20));
  }
  std::ranges::sort(all);
  WARN(fmt::format("{} deaths: median {:.3f} s, worst {:.3f} s", all.size(), all[all.size() / 2],
                   all.back()));
}

}  // namespace gv
