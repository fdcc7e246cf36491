// `grapevine ledger` on real processes: each peer's work, even after a death and after the end.
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tests/process/swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// A task without an end, with leased data.
const std::string endless = R"([run]
steps = 100000000
peers = 3
[data]
kind = "generated"
partition = "leased"
[data.generated]
samples = 4000
[model]
kind = "mlp"
hidden = [64]
[membership]
probe_period_s = 0.2
probe_timeout_s = 0.1
suspicion_min_s = 0.5
suspicion_max_factor = 2
)";

int ledger_of(const Swarm& swarm, std::size_t number, std::string& output, bool as_json = false) {
  std::vector<std::string> words = {"ledger", swarm.folder(number).string()};
  if (as_json) words.emplace_back("--json");
  output.clear();
  return run_grapevine(words, output).exit_code;
}

/// The JSON document that `grapevine ledger` prints; null if the command failed.
nlohmann::json ledger_of(const Swarm& swarm, std::size_t number) {
  std::string output;
  if (ledger_of(swarm, number, output, true) != 0) return nullptr;
  return nlohmann::json::parse(output, nullptr, false);
}

nlohmann::json entry_of(const nlohmann::json& ledger, const std::string& name) {
  for (const nlohmann::json& peer : ledger["peers"]) {
    if (peer["name"] == name) return peer;
  }
  return nlohmann::json::object();
}

}  // namespace

TEST_CASE("the ledger shows what each peer has trained, also of one that was killed", "[process]") {
  Swarm swarm(3, endless);
  swarm.start_all();
  // Wait until the first peer knows that all peers have finished chunks.
  REQUIRE(eventually(
      [&] {
        const nlohmann::json ledger = ledger_of(swarm, 0);
        if (!ledger.is_object() || ledger["peers"].size() < 3) return false;
        for (const nlohmann::json& peer : ledger["peers"]) {
          if (peer.value("chunks_done", std::uint64_t{0}) == 0) return false;
        }
        return true;
      },
      60s));
  // A peer that has just finished all of its leased chunks leaves none behind, so the test may have
  // to stop it more than once.
  const auto is = [&](const std::string& state) {
    return eventually(
        [&] {
          const nlohmann::json ledger = ledger_of(swarm, 0);
          return ledger.is_object() && entry_of(ledger, "peer-1").value("state", "") == state;
        },
        60s);
  };
  REQUIRE(eventually(
      [&] {
        swarm.signal(1, SIGSTOP);
        REQUIRE(is("dead"));
        const nlohmann::json ledger = ledger_of(swarm, 0);
        if (ledger.is_object() && ledger["ledger"].value("freed", 0) > 0) return true;
        swarm.signal(1, SIGCONT);
        REQUIRE(is("alive"));
        return false;
      },
      120s));
  swarm.kill(1);
  const nlohmann::json ledger = ledger_of(swarm, 0);
  CHECK(ledger["running"] == true);
  CHECK(entry_of(ledger, "peer-1")["state"] == "dead");
  CHECK(entry_of(ledger, "peer-1")["leases"] == 0);
  CHECK(entry_of(ledger, "peer-1")["samples"] > 0);
  const nlohmann::json chunks = ledger["ledger"];
  CHECK(chunks["done"].get<std::uint64_t>() + chunks["leased"].get<std::uint64_t>() +
            chunks["to_do"].get<std::uint64_t>() ==
        chunks["chunks"].get<std::uint64_t>());
  double shares = 0;
  for (const nlohmann::json& peer : ledger["peers"]) shares += peer.value("share", 0.0);
  CHECK(shares > 0.5);
  CHECK(shares <= 1.0001);
  // The peer's status document has the same sections.
  const nlohmann::json status = swarm.status(0);
  CHECK(status["members"][0].contains("work"));
  CHECK(status["work"]["counted"] >= ledger["work"]["counted"]);

  std::string output;
  CHECK(ledger_of(swarm, 0, output) == 0);
  CHECK_THAT(output, Catch::Contains("passes") && Catch::Contains("freed by lost peers") &&
                         Catch::Contains("peer-1") && Catch::Contains("leases"));

  // A peer that ended normally left its last ledger, and a killed peer left none.
  swarm.signal(0, SIGTERM);
  swarm.wait_for_end(0, 60s);
  CHECK(ledger_of(swarm, 0)["running"] == false);
  CHECK(ledger_of(swarm, 1, output) == 2);
  CHECK_THAT(output, Catch::Contains("no running peer answers here"));
}

TEST_CASE("a live peer tells its ledger to members that ask its address", "[process]") {
  Swarm swarm(3, endless);
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1, 2}, 1));
  swarm.kill(2);
  const std::string address = swarm.status(0)["self"].value("advertised", "");
  const auto ask = [&](const std::vector<std::string>& words, std::string& output) {
    std::vector<std::string> all = {"ledger"};
    all.insert(all.end(), words.begin(), words.end());
    output.clear();
    return run_grapevine(all, output).exit_code;
  };
  const std::string list = swarm.authorized_file().string();
  const std::string key = (swarm.folder(2) / "key").string();
  std::string output;
  CHECK(ask({address, "--key", key, "--authorized", list, "--json"}, output) == 0);
  INFO(output);
  const auto ledger = nlohmann::json::parse(output, nullptr, false);
  REQUIRE(ledger.is_object());
  CHECK(ledger["running"] == true);
  CHECK(ledger["peer"]["name"] == Swarm::name(0));
  CHECK(ledger["peers"].size() == 3);
  CHECK(ledger["ledger"]["chunks"] > 0);

  // A peer's run folder can be given instead of a key and an allow-list, even while the peer runs.
  // No peer then reports that a key is used twice.
  CHECK(ask({address, swarm.folder(1).string()}, output) == 0);
  CHECK_THAT(output, Catch::Contains("peer peer-0") && Catch::Contains("leases"));
  CHECK(swarm.events(0, "key_used_twice").empty());

  // Keys outside the list learn nothing.
  const TemporaryFolder stranger;
  const std::string other_key = (stranger.path() / "key").string();
  REQUIRE(run_grapevine({"keygen", other_key}, output).exit_code == 0);
  CHECK(ask({address, "--key", other_key, "--authorized", list}, output) == 2);
  CHECK_THAT(output, Catch::Contains("does not let this key in"));
  CHECK(ask({"127.0.0.1:1", "--key", key, "--authorized", list}, output) == 2);
  CHECK_THAT(output, Catch::Contains("127.0.0.1:1"));
}

TEST_CASE("without a common budget the ledger says in one line how to get one", "[process]") {
  std::string alone = endless;
  alone.replace(alone.find("\"leased\""), 8, "\"iid\"");
  alone.replace(alone.find("peers = 3"), 9, "budget = \"peer\"");
  Swarm swarm(1, alone);
  swarm.start_all();
  std::string output;
  CHECK(ledger_of(swarm, 0, output) == 2);
  CHECK_THAT(output, Catch::Contains("run.budget") && Catch::Contains("budget = \"swarm\""));
}

TEST_CASE("the summary of a launched run says how often leased data were trained", "[process]") {
  const TemporaryFolder folder;
  std::string short_task = endless;
  short_task.replace(short_task.find("100000000"), 9, "400");
  short_task.replace(short_task.find("peers = 3"), 9, "peers = 2");
  const std::string config = (folder.path() / "run.toml").string();
  std::ofstream(config) << short_task;
  const auto run = folder.path() / "run";
  std::string output;
  const Ending ending =
      run_grapevine({"launch", "-n", "2", config, "--folder", run.string()}, output);
  INFO(output);
  CHECK(ending.exit_code == 0);
  CHECK_THAT(output, Catch::Contains("ledger       51200 samples: trained 51200, again ") &&
                         Catch::Contains(", never 0"));
  const auto summary = nlohmann::json::parse(std::ifstream(run / "summary.json"), nullptr, false);
  REQUIRE(summary.is_object());
  CHECK(summary["ledger"]["trained"] == 51200);
}

}  // namespace gv
