// The files that `grapevine sim` writes for programs that compare runs.
#include "sim/local/summary.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/simulate.hpp"
#include "peer/config/task.hpp"
#include "peer/node/whole_replica.hpp"
#include "tests/peer/config_texts.hpp"
#include "tests/temporary_folder.hpp"

namespace gv {
namespace {

nlohmann::json summary_of(const std::string& text) {
  const TemporaryFolder folder;
  const auto config = folder.path() / "config.toml";
  std::ofstream(config) << text;
  REQUIRE(simulate({.config = config.string(), .seed = 3, .folder = folder.path() / "run"}) == 0);
  std::ifstream file(folder.path() / "run" / "summary.json");
  return nlohmann::json::parse(file, nullptr, false);
}

constexpr const char* rounds = R"(
[run]
peers = 3
steps = 120
budget = "peer"
algorithm = "diffusion"
linger_s = 1
[data.generated]
samples = 900
test_samples = 300
[scenario]
until_s = 60
)";

}  // namespace

TEST_CASE("a virtual run says for programs what it came to", "[sim]") {
  const auto summary = summary_of(rounds);
  REQUIRE(summary.is_object());
  CHECK(summary["unfinished"] == 0);
  CHECK(summary["steps"] == 3 * 120);
  CHECK(summary["mean_accuracy"] > 0.5);
  CHECK(summary["worst_accuracy"] <= summary["peers"][0]["accuracy"]);
  CHECK(summary["spread"] > 0);
  CHECK(summary["lane_bytes"] > 0);
  CHECK(summary["faults"].empty());
  REQUIRE(summary["peers"].size() == 3);
  for (const auto& peer : summary["peers"]) CHECK(peer["step"] == 120);
}

TEST_CASE("who was killed for good is unfinished in the summary", "[sim]") {
  const auto summary = summary_of(std::string(rounds) + R"(
[[scenario.fault]]
kind = "kill"
at_s = 1.5
peers = "1"
)");
  REQUIRE(summary.is_object());
  CHECK(summary["unfinished"] == 1);
  CHECK(summary["faults"]["kill"] == 1);
  CHECK(summary["peers"][1]["has_model"] == false);
  CHECK(summary["worst_peer"] != "peer-1");
}

TEST_CASE("samples of a batch that grew are those that the peers have counted", "[unit]") {
  const TemporaryFolder folder;
  const std::string text =
      "[run]\nsteps = 8\n[train]\nbatch = 10\nschedule = \"growing_batch\"\nstep_at = [5]\n"
      "[data.generated]\nsamples = 64\ntest_samples = 32\n";
  const Config config = sound(text);
  std::vector<PeerOutcome> outcomes;
  for (std::size_t i = 0; i < 2; ++i) {
    const Task task = load_task(config, i);
    REQUIRE(task.problems.empty());
    const std::string name = "peer-" + std::to_string(i);
    const auto replica = first_replica(task, i, learner_of(task));
    REQUIRE(save_replica(folder.path() / name / "checkpoints", *replica, config, text).empty());
    // Five steps of 10 samples, and three of 20. The second peer has resumed after the first five.
    const std::string own = i == 0 ? "110" : "60";
    std::ofstream(folder.path() / name / "result.json")
        << R"({"step":8,"work":{"own":)" + own + R"(,"counted":220}})";
    outcomes.push_back(
        {.name = name, .folder = folder.path() / name, .ending = {}, .by_fault = {}});
  }
  REQUIRE(print_summary(config, text, folder.path(), outcomes, std::nullopt, 1));
  std::ifstream file(folder.path() / "summary.json");
  const auto summary = nlohmann::json::parse(file, nullptr, false);
  CHECK(summary["steps"] == 16);
  CHECK(summary["samples"] == 220);
}

TEST_CASE("only the honest are judged in the summary and the hostile are named", "[sim][hostile]") {
  const std::string flipped = R"(
[run]
peers = 8
steps = 120
algorithm = "clipped_gossip"
linger_s = 1
[data.generated]
samples = 1600
test_samples = 300
[scenario]
until_s = 60
[[scenario.hostile]]
peers = "6,7"
attack = "label_flip"
strength = 50
)";
  const std::string guarded = "[mixing]\ntopology_degree = 6\n";
  const auto summary = summary_of(flipped + guarded);
  REQUIRE(summary.is_object());
  CHECK(summary["mean_accuracy"] > 0.8);
  CHECK(summary["hostile"]["peers"] == nlohmann::json({"peer-6", "peer-7"}));
  CHECK(summary["hostile"]["heard"] > 0);
  CHECK(summary["hostile"]["held_back"] == summary["hostile"]["heard"]);
  CHECK(summary["hostile"]["messages_refused"] == 0);
  CHECK(summary["peers"][6]["hostile"] == "label_flip");
  CHECK_FALSE(summary["peers"][5].contains("hostile"));
  CHECK(summary["worst_peer"] != "peer-6");
  CHECK(summary["worst_peer"] != "peer-7");

  const auto plain = summary_of(flipped + guarded + "guard = \"none\"\n");
  REQUIRE(plain.is_object());
  CHECK(plain["mean_accuracy"] < summary["mean_accuracy"].get<double>() - 0.2);
}

}  // namespace gv
