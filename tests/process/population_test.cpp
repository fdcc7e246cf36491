// A population of real processes, and real processes that take steps without locks.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <regex>
#include <string>

#include "peer/host/status.hpp"
#include "tests/process/swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

const std::string population = R"([run]
algorithm = "population"
steps = 1000000000
[data]
kind = "generated"
[data.generated]
samples = 4000
[model]
kind = "mlp"
hidden = [32]
[train]
batch = 8
[membership]
probe_period_s = 0.1
probe_timeout_s = 0.05
[population]
every_steps = 500
spread = 20
)";

double rate(const nlohmann::json& status) {
  return status["population"].value("learning_rate", 0.0);
}

}  // namespace

TEST_CASE("of two real peers the worse copies the better and both show with what", "[process]") {
  Swarm swarm(2, population);
  swarm.start_all();
  const auto copies = [&](std::size_t number) {
    const nlohmann::json status = swarm.status(number);
    return status.is_null() ? 0 : status["population"].value("copies", std::uint64_t{0});
  };
  REQUIRE(eventually([&] { return copies(0) + copies(1) > 0; }, 60s));
  const std::size_t copier = copies(0) > 0 ? 0 : 1;
  REQUIRE(eventually([&] { return !swarm.events(copier, "exploited").empty(); }, 20s));
  const nlohmann::json event = swarm.events(copier, "exploited").front();
  CHECK(event.value("name", "") == Swarm::name(1 - copier));
  CHECK(event.value("learning_rate", 0.0) > 0);
  // Every peer's trial appears in every peer's table.
  const auto is_tried = [](const nlohmann::json& member) {
    return member.contains("trial") && member["trial"].value("validation_loss", 0.0) > 0;
  };
  for (const std::size_t number : {0, 1}) {
    CHECK(eventually(
        [&] {
          const nlohmann::json status = swarm.status(number);
          if (!status.is_object()) return false;
          const nlohmann::json& members = status["members"];
          return members.size() == 2 && std::ranges::all_of(members, is_tried);
        },
        20s));
  }
  std::string table;
  run_grapevine({"status", swarm.folder(0).string()}, table);
  CHECK_THAT(table, Catch::Contains("momentum held-out"));
}

TEST_CASE("a loss that ran away is shown and ends no command", "[unit]") {
  // JSON writes null for a number that is not finite.
  const std::string table = status_table(
      R"({"loss": null, "population": {"copies": 0},
          "members": [{"name": "peer-1", "trial": {"validation_loss": null}}]})");
  INFO(table);
  CHECK_THAT(table, Catch::Contains("loss nan"));
  CHECK_THAT(table, Catch::Contains("peer-1"));
}

TEST_CASE("a peer of a population that is started again goes on with its hyper-parameters",
          "[process]") {
  Swarm swarm(1, population + "[checkpoint]\nevery_steps = 500\n");
  swarm.start(0);
  REQUIRE(eventually([&] { return rate(swarm.status(0)) > 0; }, 60s));
  const double before = rate(swarm.status(0));
  swarm.signal(0, SIGTERM);
  REQUIRE(swarm.wait_for_end(0, 30s).exit_code == 0);
  // With this config, a peer that did not resume would begin with different values.
  std::string text = std::regex_replace(population, std::regex("spread = 20"), "spread = 1");
  std::ofstream(swarm.config_file()) << text;
  swarm.start(0, {.extra = {"--resume"}});
  REQUIRE(eventually([&] { return rate(swarm.status(0)) > 0; }, 60s));
  CHECK(rate(swarm.status(0)) == before);
}

TEST_CASE("threads of one peer step on one model without locks", "[process]") {
  TemporaryFolder folder;
  const std::string config = (folder.path() / "hogwild.toml").string();
  std::ofstream(config) << R"([run]
algorithm = "hogwild"
budget = "peer"
steps = 2000
[data]
kind = "generated"
[model]
kind = "mlp"
hidden = [32]
)";
  std::string output;
  const Ending ending = run_grapevine(
      {"launch", "-n", "2", config, "--folder", (folder.path() / "run").string()}, output);
  INFO(output);
  CHECK(ending.exit_code == 0);
  CHECK_THAT(output, Catch::Contains("steps        4000"));
  const auto at = output.find("mean model");
  REQUIRE(at != std::string::npos);
  CHECK(std::stod(output.substr(at + 10)) > 80);
  // Without a fixed order of steps, runs are not reproducible, so sim refuses them.
  std::string refusal;
  CHECK(run_grapevine({"sim", config}, refusal).exit_code == 2);
}

}  // namespace gv
