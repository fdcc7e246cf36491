// `grapevine switch` between real processes: to another algorithm and to another mode, with peers
// that die and resume.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/process/swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

const std::string task = R"([data.generated]
samples = 2000
test_samples = 500
[model]
hidden = [8]
[train]
batch = 8
[checkpoint]
every_steps = 500
)";

const std::string config = "[run]\nalgorithm = \"diffusion\"\nsteps = 100000000\n" + task;
const std::string gossip = "[run]\nsteps = 100000000\nbudget = \"peer\"\n" + task;

int switch_to(Swarm& swarm, std::size_t number, std::vector<std::string> words,
              std::string& output) {
  words.insert(words.begin(), {"switch", swarm.folder(number).string()});
  output.clear();
  return run_grapevine(words, output).exit_code;
}

/// The mode to which the peer has switched, according to its status; empty if it never has.
std::string mode(Swarm& swarm, std::size_t number) {
  const nlohmann::json status = swarm.status(number);
  return status.is_object() && status.contains("switch") ? status["switch"].value("mode", "") : "";
}

std::uint64_t revision(Swarm& swarm, std::size_t number) {
  const nlohmann::json status = swarm.status(number);
  return status.is_object() ? status["mixing"].value("settings_revision", std::uint64_t{0}) : 0;
}

}  // namespace

TEST_CASE("a command to one peer makes all mix by another algorithm from the same step on",
          "[process]") {
  Swarm swarm(3, config);
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1, 2}, 50));
  std::string output;
  CHECK(switch_to(swarm, 1, {"choco", "--set", "mixing.codec_fraction=0.05"}, output) == 0);
  CHECK_THAT(output, Catch::Contains("3 peers go by it since step"));
  for (const std::size_t number : {0, 1, 2}) {
    CHECK(eventually([&] { return revision(swarm, number) == 1; }, 20s));
    const auto events = swarm.events(number, "algorithm_switched");
    REQUIRE(events.size() == 1);
    CHECK(events[0]["step"] == swarm.events(0, "algorithm_switched")[0]["step"]);
  }
  REQUIRE(swarm.go_on({0, 1, 2}));
  // A restarted peer does not know the revision, and learns it from the others.
  swarm.kill(2);
  swarm.start(2);
  CHECK(eventually([&] { return revision(swarm, 2) == 1; }, 30s));
  REQUIRE(swarm.go_on({0, 1, 2}));
  CHECK(swarm.status(0)["mixing"]["messages_refused"] == 0);
}

TEST_CASE("a swarm that was stopped as a whole goes on by what it switched to", "[process]") {
  Swarm swarm(2, config);
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1}, 50));
  std::string output;
  CHECK(switch_to(swarm, 0, {"gradient_tracking"}, output) == 0);
  CHECK(eventually([&] { return revision(swarm, 1) == 1; }, 20s));
  for (const std::size_t number : {0, 1}) swarm.signal(number, SIGTERM);
  for (const std::size_t number : {0, 1}) {
    CHECK(swarm.wait_for_end(number, 20s).exit_code == 0);
    CHECK(std::filesystem::exists(swarm.folder(number) / "settings_revision"));
  }
  for (const std::size_t number : {0, 1}) swarm.start(number, {.extra = {"--resume"}});
  CHECK(eventually([&] { return revision(swarm, 0) == 1 && revision(swarm, 1) == 1; }, 20s));
  REQUIRE(swarm.go_on({0, 1}));
  // The peer uses the revision from its first step on, so it does not switch again.
  CHECK(swarm.events(0, "algorithm_switched").size() == 1);
}

TEST_CASE("a swarm goes from gossip to lockstep and back at steps that all agree on", "[process]") {
  Swarm swarm(3, gossip);
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1, 2}, 50));
  std::string output;
  CHECK(switch_to(swarm, 1, {"allreduce"}, output) == 0);
  CHECK_THAT(output, Catch::Contains("3 peers have switched to mode allreduce at step"));
  for (const std::size_t number : {0, 1, 2}) {
    CHECK(eventually([&] { return mode(swarm, number) == "allreduce"; }, 20s));
    const auto events = swarm.events(number, "algorithm_switched");
    REQUIRE(events.size() == 1);
    CHECK(events[0]["step"] == swarm.events(0, "algorithm_switched")[0]["step"]);
  }
  REQUIRE(swarm.go_on({0, 1, 2}));
  // A restarted peer begins in its config's mode, and learns the present mode from the others.
  swarm.kill(2);
  swarm.start(2);
  CHECK(eventually([&] { return mode(swarm, 2) == "allreduce"; }, 30s));
  REQUIRE(swarm.go_on({0, 1, 2}));
  // A peer that resumes alone continues in the mode recorded in its folder.
  for (const std::size_t number : {0, 1, 2}) swarm.signal(number, SIGTERM);
  for (const std::size_t number : {0, 1, 2}) {
    CHECK(swarm.wait_for_end(number, 20s).exit_code == 0);
  }
  for (const std::size_t number : {0, 1, 2}) swarm.start(number, {.extra = {"--resume"}});
  for (const std::size_t number : {0, 1, 2}) {
    CHECK(eventually([&] { return mode(swarm, number) == "allreduce"; }, 20s));
  }
  REQUIRE(swarm.go_on({0, 1, 2}));
  CHECK(switch_to(swarm, 2, {"gossip"}, output) == 0);
  REQUIRE(swarm.go_on({0, 1, 2}));
}

TEST_CASE("a damaged settings revision is refused with its place when a peer is to go on by it",
          "[process]") {
  Swarm swarm(1, config);
  std::filesystem::create_directories(swarm.folder(0));
  const auto go_on = [&](std::string_view text, std::string& output) {
    std::ofstream(swarm.folder(0) / "settings_revision") << text;
    return run_grapevine(
               {"peer", swarm.config_file().string(), "--key", (swarm.folder(0) / "key").string(),
                "--authorized", swarm.authorized_file().string(), "--folder",
                swarm.folder(0).string(), "--listen", "127.0.0.1:0", "--resume"},
               output)
        .exit_code;
  };
  std::string output;
  CHECK(go_on("", output) == 2);
  CHECK_THAT(output, Catch::Contains("settings_revision: is damaged"));
  CHECK_THAT(output, Catch::Contains("remove the file"));
  CHECK(go_on("1\nrun.algorithm = \"chocco\"\n", output) == 2);
  CHECK_THAT(output, Catch::Contains("\"choco\""));
}

TEST_CASE("a peer whose model is not finite leaves at a switch, which the others make",
          "[process]") {
  Swarm swarm(3, gossip);
  swarm.start(0);
  swarm.start(1);
  std::string diverging = gossip;
  diverging.insert(diverging.find("[checkpoint]"),
                   "learning_rate = 100.0\nschedule = \"constant\"\nweight_decay = 1.0\n");
  std::ofstream(swarm.config_file()) << diverging;
  swarm.start(2);
  // Each step multiplies the weights by -99, so they are infinite after some twenty steps.
  REQUIRE(eventually(
      [&] {
        return std::ranges::any_of(swarm.events(0, "model_refused"), [](const auto& event) {
          return event.value("reason", "") == "not finite";
        });
      },
      60s));
  std::string output;
  switch_to(swarm, 0, {"gossip", "--set", "gossip.alpha=0.3"}, output);
  CHECK(swarm.wait_for_end(2, 60s).exit_code == 1);
  for (const std::size_t number : {0, 1}) {
    CHECK(eventually([&] { return !swarm.events(number, "algorithm_switched").empty(); }, 60s));
  }
  CHECK(swarm.go_on({0, 1}));
}

TEST_CASE("a peer that restarts after two switches disturbs no other", "[process]") {
  Swarm swarm(3, gossip);
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1, 2}, 50));
  std::string output;
  CHECK(switch_to(swarm, 0, {"d_psgd"}, output) == 0);
  // Without a mode, settings apply to the present mode and not to the config's mode.
  CHECK(switch_to(swarm, 0, {"--set", "mixing.period_steps=3"}, output) == 0);
  INFO(output);
  for (const std::size_t number : {0, 1, 2}) {
    CHECK(eventually([&] { return swarm.events(number, "algorithm_switched").size() == 2; }, 20s));
    CHECK(mode(swarm, number) == "mixing");
  }
  REQUIRE(swarm.go_on({0, 1, 2}));
  swarm.kill(2);
  swarm.start(2, {.extra = {"--resume"}});
  CHECK(eventually([&] { return mode(swarm, 2) == "mixing"; }, 20s));
  REQUIRE(swarm.go_on({0, 1, 2}, 500));
  for (const std::size_t number : {0, 1, 2}) {
    CHECK(swarm.events(number, "algorithm_switched").size() == 2);
  }
  CHECK(switch_to(swarm, 1, {"--set", "gossip.period_steps=9"}, output) == 2);
}

TEST_CASE("a command that cannot be obeyed is answered with the reason", "[process]") {
  Swarm swarm(2, config);
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1}, 20));
  std::string output;
  CHECK(switch_to(swarm, 0, {"qg_dsgdm"}, output) == 2);
  CHECK_THAT(output, Catch::Contains("has a momentum of its own"));
  CHECK(switch_to(swarm, 0, {"pipeline"}, output) == 2);
  CHECK_THAT(output, Catch::Contains("no peer has a whole model"));
  CHECK(switch_to(swarm, 0, {}, output) == 2);
  CHECK_THAT(output, Catch::Contains("nothing to switch to"));
  CHECK(run_grapevine({"switch", "nowhere", "sgp"}, output).exit_code == 2);
  CHECK_THAT(output, Catch::Contains("no running peer answers here"));
  CHECK(revision(swarm, 0) == 0);
}

}  // namespace gv
