// Rounds of mixing between real processes: chosen by name, and continued through kills and stops.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/process/swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

std::string rounds(std::uint64_t steps, const std::string& algorithm, const std::string& more = "",
                   const std::string& optimizer = "") {
  return fmt::format(R"([run]
algorithm = "{}"
steps = {}
linger_s = 20
[data]
kind = "generated"
[data.generated]
samples = 4000
test_samples = 500
[model]
kind = "mlp"
hidden = [32]
[train]
batch = 8
{}
[mixing]
{})",
                     algorithm, steps, optimizer, more);
}

Ending launched(const std::string& config, std::string& output, const std::string& peers = "4") {
  TemporaryFolder folder;
  std::ofstream(folder.path() / "mixing.toml") << config;
  return run_grapevine({"launch", "-n", peers, (folder.path() / "mixing.toml").string(), "--folder",
                        (folder.path() / "run").string()},
                       output);
}

double mean_accuracy(const std::string& output) {
  const auto at = output.find("mean model");
  return at == std::string::npos ? 0 : std::stod(output.substr(at + 10));
}

}  // namespace

TEST_CASE("a launched run in rounds trains by the algorithm that it names", "[process][waits]") {
  const auto* algorithm = GENERATE("d_psgd", "sgp", "osgp", "choco", "deep_squeeze", "relay_sgd",
                                   "gradient_tracking", "noloco", "async", "qg_dsgdm");
  std::string output;
  const std::string_view name = algorithm;
  // On a busy machine, a peer that waits for no other may run far ahead before the others begin.
  const std::string more = name == "noloco"  ? "period_steps = 10"
                           : name == "async" ? "catch_up_rounds = 400"
                                             : "";
  // No peer dies here, but a busy machine may delay one for longer than the usual suspicion.
  const std::string patient = "\n[membership]\nsuspicion_min_s = 60\n";
  const Ending ending = launched(rounds(400, algorithm, more + patient), output);
  INFO(algorithm << "\n" << output);
  CHECK(ending.exit_code == 0);
  CHECK_THAT(output, Catch::Contains("4 peers train in rounds"));
  // Peers that wait for no other make different numbers of steps.
  const std::string steps = name == "async" ? "" : "400";
  CHECK_THAT(output, Catch::Contains(steps + " together; losses 0; models sent 0"));
  CHECK(mean_accuracy(output) > 80);
}

TEST_CASE("when one of a round is killed the others mix without it", "[process]") {
  const std::size_t victim = GENERATE(std::size_t{0}, std::size_t{2});
  const auto* algorithm = GENERATE("d_psgd", "choco");
  Swarm swarm(4, rounds(100000000, algorithm));
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1, 2, 3}, 50));
  swarm.kill(victim);
  std::vector<std::size_t> others = {0, 1, 2, 3};
  std::erase(others, victim);
  REQUIRE(swarm.go_on(others));
  for (const std::size_t number : others) {
    const nlohmann::json status = swarm.status(number)["mixing"];
    CHECK(status["together"] == 3);
    CHECK(status["hears"].size() == 2);
    CHECK(status["messages_refused"] == 0);
  }
  swarm.start(victim);
  REQUIRE(swarm.go_on({0, 1, 2, 3}));
  CHECK(eventually([&] { return swarm.status(victim)["mixing"]["together"] == 4; }, 20s));
}

TEST_CASE("one that sleeps through rounds is left out and mixes again when it wakes", "[process]") {
  Swarm swarm(3, rounds(100000000, "diffusion"));
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1, 2}, 50));
  swarm.signal(1, SIGSTOP);
  REQUIRE(swarm.go_on({0, 2}, 2000));
  swarm.signal(1, SIGCONT);
  CHECK(eventually([&] { return swarm.status(1)["mixing"]["together"] == 3; }, 30s));
  REQUIRE(swarm.go_on({0, 1, 2}));
}

TEST_CASE("combinations that make no sense end before a socket opens", "[process]") {
  std::string output;
  const Ending ending = launched(rounds(10, "d_psgd", "codec = \"top_k\""), output);
  CHECK(ending.exit_code == 2);
  CHECK_THAT(output, Catch::Contains("mixing.codec: \"top_k\" always leaves out the same"));
  CHECK_THAT(output, Catch::Contains("add memory = \"difference\""));
  output.clear();
  CHECK(launched(rounds(10, "d_psgd", "fragmens = 2"), output).exit_code == 2);
  CHECK_THAT(output, Catch::Contains("the nearest valid one is fragments"));
}

TEST_CASE("algorithms are listed by name with what they cost", "[process]") {
  std::string output;
  CHECK(run_grapevine({"algorithms"}, output).exit_code == 0);
  CHECK_THAT(output, Catch::Contains("choco") && Catch::Contains("(Koloskova 2019)"));
  output.clear();
  CHECK(run_grapevine({"algorithms", "sgp", "-n", "16"}, output).exit_code == 0);
  CHECK_THAT(output, Catch::Contains("kind = \"push_sum\"") && Catch::Contains("1 messages"));
  output.clear();
  CHECK(run_grapevine({"algorithms", "all_reduce"}, output).exit_code == 0);
  CHECK_THAT(output,
             Catch::Contains("ring                14 rounds,   14 messages and     7 MB sent"));
  CHECK_THAT(output,
             Catch::Contains("halving_doubling     6 rounds,    6 messages and     7 MB sent"));
  output.clear();
  CHECK(run_grapevine({"algorithms", "choko"}, output).exit_code == 2);
  CHECK_THAT(output, Catch::Contains("the nearest is choco"));
}

}  // namespace gv
