// A budget that belongs to the swarm, in real processes: all end together with one model.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/process/swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// A task that four peers complete together in a few seconds: 20,000 steps of 64 samples.
const std::string together = R"([run]
budget = "swarm"
steps = 5000
peers = 4
linger_s = 20.0
[data]
kind = "generated"
[data.generated]
samples = 4000
[model]
kind = "mlp"
hidden = [64]
[gossip]
period_steps = 4
[membership]
probe_period_s = 0.2
probe_timeout_s = 0.1
suspicion_min_s = 0.5
suspicion_max_factor = 2
)";

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string final_model(const Swarm& swarm, std::size_t number) {
  return bytes_of(swarm.folder(number) / "final.safetensors");
}

/// The fraction of the budget that is used up, as far as this peer knows.
double work_done(Swarm& swarm, std::size_t number) {
  const nlohmann::json status = swarm.status(number);
  if (!status.is_object() || !status.contains("work")) return 0;
  return status["work"].value("counted", 0.0) / status["work"].value("budget", 1.0);
}

/// The config `together` in another mode.
std::string together_in(const std::string& mode) {
  std::string text = together;
  text.insert(text.find("budget"), "mode = \"" + mode + "\"\n");
  const std::size_t gossip = text.find("[gossip]");
  return text.erase(gossip, text.find("[membership]") - gossip);
}

/// The config `text` with another number of steps for each peer, in place of 5,000.
std::string with_steps(std::string text, const std::string& steps) {
  const std::string usual = "steps = 5000";
  return text.replace(text.find(usual), usual.size(), "steps = " + steps);
}

/// Starts all peers again with this config, from their checkpoints.
void resume_all(Swarm& swarm, std::size_t peers, const std::string& config) {
  std::ofstream(swarm.config_file()) << config;
  for (std::size_t number = 0; number < peers; ++number) {
    swarm.start(number, {.extra = {"--resume"}});
  }
}

/// The step of the peer's last common mean; 0 if it has had none.
std::uint64_t step_of_mean(Swarm& swarm, std::size_t number) {
  const auto done = swarm.events(number, "finale_done");
  return done.empty() ? 0 : done.back().value("step", std::uint64_t{0});
}

bool ends_cleanly(Swarm& swarm, std::size_t number) {
  const Ending ending = swarm.wait_for_end(number, 60s);
  return ending.signal == 0 && ending.exit_code == 0;
}

/// True if the peers end cleanly and have written the same bytes.
bool end_with_one_model(Swarm& swarm, const std::vector<std::size_t>& peers) {
  bool are_clean = true;
  for (const std::size_t number : peers) are_clean &= ends_cleanly(swarm, number);
  const std::string model = final_model(swarm, peers.front());
  return are_clean && !model.empty() && std::ranges::all_of(peers, [&](std::size_t number) {
           return final_model(swarm, number) == model;
         });
}

}  // namespace

TEST_CASE("real peers stop together, also a slow one, and write the same bytes", "[process]") {
  Swarm swarm(4, together);
  swarm.start_all();
  // One peer is stopped most of the time, as on a machine that other people use.
  for (int turn = 0; turn < 200 && work_done(swarm, 0) < 0.9; ++turn) {
    swarm.signal(3, SIGSTOP);
    swarm.status(0);
    swarm.status(1);
    swarm.signal(3, SIGCONT);
    swarm.status(3);
  }
  CHECK(end_with_one_model(swarm, {0, 1, 2, 3}));
  std::uint64_t trained = 0;
  for (const std::size_t number : {0, 1, 2, 3}) {
    const auto done = swarm.events(number, "finale_done");
    REQUIRE(done.size() == 1);
    trained += done.front().value("samples", std::uint64_t{0});
  }
  const std::uint64_t budget = 4 * 5000 * 64;
  CHECK(trained >= budget);
  CHECK(trained < budget + budget / 8);
}

TEST_CASE("real peers end with one model after one is killed and another started again",
          "[process][waits]") {
  Swarm swarm(4, together);
  swarm.start_all();
  REQUIRE(eventually([&] { return work_done(swarm, 0) > 0.2; }, 60s));
  swarm.kill(1);
  swarm.kill(2);
  REQUIRE(eventually([&] { return work_done(swarm, 0) > 0.4; }, 60s));
  swarm.start(2);
  CHECK(end_with_one_model(swarm, {0, 2, 3}));
  CHECK(final_model(swarm, 1).empty());
}

TEST_CASE("in rounds and in lockstep real peers end with one model as well", "[process][waits]") {
  const std::string mode = GENERATE(as<std::string>(), "mixing", "allreduce");
  INFO(mode);
  Swarm swarm(4, together_in(mode));
  swarm.start_all();
  REQUIRE(eventually([&] { return work_done(swarm, 0) > 0.2; }, 60s));
  swarm.kill(1);
  CHECK(end_with_one_model(swarm, {0, 2, 3}));
}

TEST_CASE("real peers train what one had taken that is killed", "[process][waits]") {
  std::string leased = together;
  leased.insert(leased.find("[data.generated]"), "partition = \"leased\"\n");
  Swarm swarm(4, leased);
  swarm.start_all();
  REQUIRE(eventually([&] { return work_done(swarm, 0) > 0.2; }, 60s));
  swarm.kill(1);
  CHECK(end_with_one_model(swarm, {0, 2, 3}));
  // The first peer that knows that all chunks are done ends the training. Other peers may end
  // before they know of the last chunks, so the largest count is the right one.
  std::uint64_t done = 0;
  std::uint64_t chunks = 0;
  for (const std::size_t number : {0, 2, 3}) {
    const auto result = nlohmann::json::parse(bytes_of(swarm.folder(number) / "result.json"));
    done = std::max(done, result["ledger"].value("done", std::uint64_t{0}));
    chunks = result["ledger"].value("chunks", std::uint64_t{0});
  }
  CHECK(chunks == 20000 / 16);
  CHECK(done == chunks);
}

TEST_CASE("real peers end together when the time of the run is over", "[process]") {
  for (const std::string mode : {"gossip", "allreduce"}) {
    std::string config = mode == "gossip" ? together : together_in(mode);
    config.replace(config.find("steps = 5000"), 12, "steps = 1000000000\nwall_s = 3.0");
    Swarm swarm(3, config);
    INFO(mode);
    swarm.start_all();
    CHECK(end_with_one_model(swarm, {0, 1, 2}));
    CHECK(swarm.events(0, "finale_done").size() == 1);
  }
}

TEST_CASE("real peers that have ended train on with more steps, from a true step", "[process]") {
  const std::string mode = GENERATE(as<std::string>(), "gossip", "mixing");
  INFO(mode);
  const std::string config = mode == "gossip" ? together : together_in(mode);
  Swarm swarm(2, with_steps(config, "1000"));
  swarm.start_all();
  REQUIRE(end_with_one_model(swarm, {0, 1}));
  // Such a short run may be over before peers learn of each other's steps. In that case, each peer
  // makes the steps of both.
  const std::uint64_t first = step_of_mean(swarm, 0);
  CHECK(first >= 1000);
  CHECK(first < 4000);
  const std::string before = final_model(swarm, 0);

  resume_all(swarm, 2, with_steps(config, "4000"));
  REQUIRE(end_with_one_model(swarm, {0, 1}));
  CHECK(swarm.events(0, "resumed").back().value("step", std::uint64_t{0}) == first);
  const std::uint64_t second = step_of_mean(swarm, 0);
  CHECK(second >= first + 1000);
  CHECK(second < 16000);
  CHECK(final_model(swarm, 0) != before);

  // With the same config there is nothing left to train.
  const std::string after = final_model(swarm, 0);
  resume_all(swarm, 2, with_steps(config, "4000"));
  REQUIRE(end_with_one_model(swarm, {0, 1}));
  CHECK(step_of_mean(swarm, 0) == second);
  CHECK(final_model(swarm, 0) == after);
}

TEST_CASE("real peers whose time was over train on for a longer time", "[process]") {
  const auto with_time = [](const std::string& wall_s) {
    return with_steps(together, "1000000000\nwall_s = " + wall_s);
  };
  Swarm swarm(2, with_time("1.0"));
  swarm.start_all();
  REQUIRE(end_with_one_model(swarm, {0, 1}));
  const std::uint64_t first = step_of_mean(swarm, 0);
  const std::string before = final_model(swarm, 0);
  resume_all(swarm, 2, with_time("4.0"));
  REQUIRE(end_with_one_model(swarm, {0, 1}));
  CHECK(step_of_mean(swarm, 0) > first);
  CHECK(final_model(swarm, 0) != before);
}

}  // namespace gv
