// Launched runs of real processes in which peers die, stand still and join late, and links break.
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <iterator>
#include <memory>

#include "peer/host/peer_socket.hpp"
#include "sim/local/process_group.hpp"
#include "tests/process/swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

/// Membership settings with which a death is noticed within a second instead of five.
const std::string quick_membership = R"([membership]
probe_period_s = 0.2
probe_timeout_s = 0.1
suspicion_min_s = 0.5
suspicion_max_factor = 2
push_pull_period_s = 1
)";

/// A launcher with a config and a file of faults, and the peers that it starts.
class FaultyRun {
 public:
  FaultyRun(std::size_t peers, const std::string& config, const std::string& faults)
      : peers_(peers) {
    std::ofstream(folder_.path() / "run.toml") << config;
    std::ofstream(folder_.path() / "faults.toml") << "[scenario]\n" << faults;
    launcher_ = std::make_unique<ChildProcess>(
        std::vector<std::string>{grapevine_binary(), "launch", "-n", std::to_string(peers),
                                 (folder_.path() / "run.toml").string(), "--faults",
                                 (folder_.path() / "faults.toml").string(), "--folder",
                                 run().string()},
        folder_.path() / "output");
  }

  std::filesystem::path run() const { return folder_.path() / "run"; }
  std::filesystem::path peer(std::size_t number) const {
    return run() / ("peer-" + std::to_string(number));
  }
  ChildProcess& launcher() { return *launcher_; }
  std::string output() const {
    std::ifstream in(folder_.path() / "output");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  bool has_said(const std::string& words) const {
    return output().find(words) != std::string::npos;
  }

  /// Waits for the launcher to end. Returns its exit code, or -1 if it did not end by itself.
  int end(std::chrono::milliseconds limit = 60s) {
    if (!eventually([&] { return launcher_->ending().has_value(); }, limit)) return -1;
    return launcher_->ending()->signal != 0 ? -1 : launcher_->ending()->exit_code;
  }
  /// Interrupts the launcher as a person would, with Ctrl-C.
  int interrupt() {
    launcher_->signal(SIGINT);
    return end(20s);
  }

  Json status(std::size_t number) const {
    const auto document = ask_peer(peer(number), {}, 500);
    return document ? Json::parse(*document, nullptr, false) : Json(nullptr);
  }
  std::uint64_t step(std::size_t number) const {
    const Json document = status(number);
    return document.is_object() ? document.value("step", 0ULL) : 0;
  }
  bool all_train() const {
    for (std::size_t number = 0; number < peers_; ++number) {
      const Json document = status(number);
      if (!document.is_object() || document.value("phase", "") != "training") return false;
    }
    return true;
  }
  std::string state_of(std::size_t number, std::size_t other) const {
    const Json document = status(number);
    if (!document.is_object()) return "unknown";
    for (const Json& member : document["members"]) {
      if (member.value("name", "") == "peer-" + std::to_string(other)) {
        return member.value("state", "unknown");
      }
    }
    return "unknown";
  }
  /// Number of events with that name in all logs, or in one peer's log.
  std::size_t events(const std::string& name, std::optional<std::size_t> only = {}) const {
    std::size_t count = 0;
    for (std::size_t number = 0; number < peers_; ++number) {
      if (only && *only != number) continue;
      std::ifstream in(peer(number) / "events.jsonl");
      for (std::string line; std::getline(in, line);) {
        count += line.find("\"event\":\"" + name + "\"") != std::string::npos;
      }
    }
    return count;
  }
  bool exchanges_go_on(std::size_t number) const {
    const std::size_t before = events("exchange_committed", number);
    return eventually([&] { return events("exchange_committed", number) > before + 3; }, 30s);
  }
  Json summary() const {
    std::ifstream in(run() / "summary.json");
    return Json::parse(in, nullptr, false);
  }

 private:
  TemporaryFolder folder_;
  std::size_t peers_;
  std::unique_ptr<ChildProcess> launcher_;
};

std::string fault(const std::string& body) { return "[[scenario.fault]]\n" + body + "\n"; }

/// A config that trains long enough for faults to happen, and learns something.
std::string long_run(std::uint64_t steps, const std::string& extra = "") {
  std::string config = endless_config(extra);
  config.replace(config.find("100000000"), 9, std::to_string(steps));
  config.replace(config.find("every_steps = 0"), 15, "every_steps = 2000");
  return config;
}

/// The process's state as the kernel reports it. 'T' means stopped.
char process_state(long pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto close = text.rfind(')');
  return close == std::string::npos || close + 2 >= text.size() ? 0 : text[close + 2];
}

}  // namespace

TEST_CASE("under churn the others train on and everybody who died comes back with a good model",
          "[process]") {
  FaultyRun run(6, long_run(180000),
                fault("kind = \"join\"\nat_s = 1.5\npeers = 5") +
                    fault("kind = \"kill\"\nat_s = 0.5\nfor_s = 1\n"
                          "every_s = 1\nuntil_s = 5\npeers = \"any\"") +
                    fault("kind = \"stop\"\nat_s = 1\nfor_s = 1\n"
                          "every_s = 2\nuntil_s = 5\npeers = \"any\"") +
                    fault("kind = \"restart\"\nat_s = 2\npeers = 0"));
  const int code = run.end(120s);
  INFO(run.output());
  CHECK(code == 0);
  const Json summary = run.summary();
  REQUIRE(summary.is_object());
  CHECK(summary.value("mean_accuracy", 0.0) > 0.8);
  CHECK(summary.value("failures", 1) == 0);
  for (const Json& peer : summary["peers"]) {
    INFO(peer.value("name", ""));
    CHECK(peer["result"].value("phase", "") == "done");
    CHECK(peer.value("accuracy", 0.0) > 0.75);
  }
  const Json& faults = summary["faults"];
  CHECK(faults["injected"].value("kill", 0) >= 2);
  CHECK(faults["injected"].value("stop", 0) >= 1);
  CHECK(faults["injected"].value("join", 0) == 1);
  CHECK(faults["injected"].value("restart", 0) == 1);
  CHECK(faults.value("down_s", 0.0) > 1.5);
  CHECK(faults.value("stopped_s", 0.0) > 0.8);
  CHECK(faults.value("models_fetched", 0) >= 1);
  CHECK_FALSE(faults.contains("links"));
  // Every incarnation of a peer listens at the same address as the one before.
  std::ifstream in(run.peer(0) / "output.log");
  std::string address;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("listening on ")) continue;
    const std::string told = line.substr(0, line.find(" as "));
    CHECK((address.empty() || address == told));
    address = told;
  }
  CHECK_FALSE(address.empty());
  CHECK(run.has_said("  kill "));
  CHECK(run.has_said("join 5"));
}

TEST_CASE("both sides of a partition train on and their views and models merge after it",
          "[process]") {
  FaultyRun run(4, endless_config(quick_membership),
                fault("kind = \"partition\"\nat_s = 1\npeers = \"0-1\"") +
                    fault("kind = \"heal\"\nat_s = 6"));
  REQUIRE(eventually([&] { return run.has_said("partition 0-1"); }, 30s));
  REQUIRE(eventually(
      [&] {
        return run.state_of(0, 2) == "dead" && run.state_of(0, 3) == "dead" &&
               run.state_of(3, 0) == "dead" && run.state_of(3, 1) == "dead";
      },
      10s));
  CHECK_FALSE(run.has_said("heal"));
  CHECK(run.state_of(0, 1) == "alive");
  CHECK(run.state_of(3, 2) == "alive");
  CHECK(run.exchanges_go_on(0));
  CHECK(run.exchanges_go_on(3));
  REQUIRE(eventually([&] { return run.has_said("heal"); }, 30s));
  CHECK(eventually(
      [&] {
        for (std::size_t i = 0; i < 4; ++i) {
          for (std::size_t other = 0; other < 4; ++other) {
            if (run.state_of(i, other) != "alive") return false;
          }
        }
        return true;
      },
      20s));
  for (std::size_t number = 0; number < 4; ++number) CHECK(run.exchanges_go_on(number));
  CHECK(run.interrupt() == 0);
  INFO(run.output());
  const Json summary = run.summary();
  REQUIRE(summary.is_object());
  CHECK(summary["faults"]["injected"].value("partition", 0) == 1);
  CHECK(summary["faults"].value("declared_dead", 0) >= 4);
  CHECK(summary["faults"].value("returned", 0) >= 4);
  CHECK(summary["faults"]["links"].value("bytes_held", 0) > 0);
}

TEST_CASE("a cut one way kills nobody as long as others can hear both ends", "[process]") {
  FaultyRun run(4, endless_config(quick_membership),
                fault("kind = \"cut\"\nat_s = 0.5\nfor_s = 3\npeers = 0\nto = 1"));
  REQUIRE(eventually([&] { return run.has_said("end of cut 0 to 1"); }, 30s));
  CHECK(run.exchanges_go_on(0));
  CHECK(run.exchanges_go_on(1));
  CHECK(run.events("member_dead") == 0);
  CHECK(run.interrupt() == 0);
  INFO(run.output());
  CHECK(run.summary()["faults"]["links"].value("bytes_held", 0) > 0);
}

TEST_CASE("damaged bytes break connections and get in nowhere and exchanges go on", "[process]") {
  FaultyRun run(3, endless_config(quick_membership),
                fault("kind = \"corrupt\"\nat_s = 0.3\nfor_s = 3\nprobability = 0.01"));
  REQUIRE(eventually([&] { return run.has_said("end of corrupt all to all 1 %"); }, 30s));
  for (std::size_t number = 0; number < 3; ++number) CHECK(run.exchanges_go_on(number));
  CHECK(run.interrupt() == 0);
  INFO(run.output());
  const Json faults = run.summary()["faults"];
  CHECK(faults["links"].value("corrupted", 0) > 3);
  CHECK(faults["links"].value("broken", 0) > 1);
  CHECK(faults.value("models_refused", 1) == 0);
  CHECK(run.events("message_refused") == 0);
  CHECK(run.summary().value("mean_accuracy", 0.0) > 0.8);
}

TEST_CASE("slow and lossy links slow exchanges down and change nothing else", "[process]") {
  FaultyRun run(3, endless_config(),
                "[[scenario.link]]\nlatency_s = 0.01\njitter_s = 0.005\nloss = 0.01\n"
                "duplicate = 0.02\nreorder = 0.02\n" +
                    fault("kind = \"clog\"\nat_s = 0.5\nfor_s = 0.5\npeers = 0\nto = 1") +
                    fault("kind = \"slow_link\"\nat_s = 0.5\nfor_s = 2\nlatency_s = 0.05\n"
                          "bandwidth_mbit = 20\npeers = 2") +
                    fault("kind = \"loss\"\nat_s = 1\nfor_s = 1.5\nprobability = 0.05") +
                    fault("kind = \"duplicate\"\nat_s = 1\nfor_s = 1.5\nprobability = 0.2") +
                    fault("kind = \"reorder\"\nat_s = 1\nfor_s = 1.5\nprobability = 0.2"));
  REQUIRE(eventually([&] { return run.has_said("end of reorder"); }, 30s));
  for (std::size_t number = 0; number < 3; ++number) CHECK(run.exchanges_go_on(number));
  CHECK(run.events("member_dead") == 0);
  CHECK(run.interrupt() == 0);
  INFO(run.output());
  const Json faults = run.summary()["faults"];
  for (const char* kind : {"clog", "slow_link", "loss", "duplicate", "reorder"}) {
    CHECK(faults["injected"].value(kind, 0) == 1);
  }
  for (const char* count : {"lost", "duplicated", "reordered"}) {
    CHECK(faults["links"].value(count, 0) > 0);
  }
  CHECK(faults["links"].value("corrupted", 1) == 0);
  CHECK(faults["links"].value("refused", 1) == 0);
}

TEST_CASE("peers are stopped and continued and slowed and sent away as the scenario says",
          "[process]") {
  FaultyRun run(5, endless_config(quick_membership),
                "[[scenario.speed]]\npeers = 3\nfactor = 0.25\n" +
                    fault("kind = \"stop\"\nat_s = 0.5\npeers = 1") +
                    fault("kind = \"slow_cpu\"\nat_s = 0.5\npeers = 4\nfactor = 0.1") +
                    fault("kind = \"leave\"\nat_s = 1\npeers = 2") +
                    fault("kind = \"continue\"\nat_s = 6\npeers = 1"));
  REQUIRE(eventually([&] { return run.has_said("stop 1"); }, 30s));
  const Json before = run.status(0);
  REQUIRE(before.is_object());
  const std::uint64_t own = run.step(0);
  const std::uint64_t quarter = run.step(3);
  const std::uint64_t tenth = run.step(4);
  REQUIRE(eventually([&] { return run.has_said("leave 2"); }, 30s));
  CHECK(eventually([&] { return run.state_of(0, 2) == "left"; }, 5s));
  CHECK_FALSE(run.has_said("continue 1"));
  CHECK(eventually([&] { return run.has_said("peer-1 stopped"); }, 10s));
  REQUIRE(eventually([&] { return run.has_said("continue 1"); }, 30s));
  // The pace of a slow peer also depends on other programs here, so only the order is certain.
  const auto full_pace = static_cast<double>(run.step(0) - own);
  CHECK(static_cast<double>(run.step(3) - quarter) < 0.6 * full_pace);
  CHECK(static_cast<double>(run.step(4) - tenth) < 0.4 * full_pace);
  CHECK(run.step(4) > tenth);
  CHECK(run.exchanges_go_on(1));
  CHECK(run.interrupt() == 0);
  INFO(run.output());
  const Json summary = run.summary();
  CHECK(summary["peers"][2].value("by_fault", "") == "left by a fault");
  CHECK(summary["faults"].value("stopped_s", 0.0) == Approx(5.5).margin(0.5));
  CHECK(summary.value("failures", 1) == 0);
}

TEST_CASE("the summary names the peer with which chunks of leased data were lost", "[process]") {
  // There is far more work than the peers can do, so no peer takes over another's chunks before
  // that peer counts as dead. With shorter limits, busy peers would declare each other dead.
  const std::string config = R"([run]
steps = 100000000
[data]
partition = "leased"
chunk_samples = 8192
[data.generated]
samples = 131072
test_samples = 500
[model]
hidden = [1024, 1024]
[train]
batch = 256
[checkpoint]
every_steps = 0
[membership]
probe_period_s = 1.0
probe_timeout_s = 0.6
suspicion_min_s = 2.0
suspicion_max_factor = 2
push_pull_period_s = 1
)";
  // On a very busy machine, the peer may not have reported a chunk yet. Then a second kill follows.
  FaultyRun run(3, config, fault("kind = \"kill\"\nat_s = 5\nfor_s = 10\nevery_s = 20\npeers = 2"));
  REQUIRE(eventually(
      [&] {
        const Json status = run.status(0);
        return status.is_object() && status["ledger"].value("freed", 0) > 0;
      },
      60s));
  CHECK(run.interrupt() == 0);
  INFO(run.output());
  const Json ledger = run.summary()["ledger"];
  REQUIRE(ledger.is_object());
  CHECK(ledger["lost_with"].size() == 1);
  CHECK(ledger["lost_with"].value("peer-2", 0) > 0);
  CHECK(run.has_said("lost         with peer-2 at most "));
}

TEST_CASE("a run in which everybody is killed for good ends with its summary", "[process]") {
  FaultyRun run(2, long_run(100000000), fault("kind = \"kill\"\nat_s = 1.5\nfor_s = 0"));
  CHECK(run.end(30s) == 0);
  INFO(run.output());
  CHECK(run.has_said("killed by a fault"));
  CHECK(run.summary().value("failures", 1) == 0);
  CHECK(run.summary()["faults"]["injected"].value("kill", 0) == 1);
}

TEST_CASE("after a power cut of all peers they go on together from their checkpoints",
          "[process]") {
  FaultyRun run(3, long_run(100000000), fault("kind = \"kill\"\nat_s = 1.5\nfor_s = 0.5"));
  REQUIRE(eventually([&] { return run.has_said("end of kill all"); }, 30s));
  REQUIRE(eventually([&] { return run.all_train(); }, 30s));
  for (std::size_t number = 0; number < 3; ++number) {
    CHECK(run.events("resumed", number) == 1);
    CHECK(run.exchanges_go_on(number));
  }
  CHECK(run.interrupt() == 0);
}

TEST_CASE("a peer that crashes by itself makes a run with faults fail", "[process]") {
  FaultyRun run(3, endless_config(), fault("kind = \"stop\"\nat_s = 0.5\nfor_s = 0.5\npeers = 0"));
  REQUIRE(eventually([&] { return run.has_said("end of stop 0"); }, 30s));
  const Json document = run.status(2);
  REQUIRE(document.is_object());
  ::kill(document["self"].value("pid", 0), SIGKILL);
  CHECK(run.interrupt() == 1);
  CHECK(run.summary().value("failures", 0) == 1);
  CHECK(run.has_said("peer-2: killed by signal 9; the last line of " +
                     (run.peer(2) / "output.log").string() + ": "));
  CHECK_FALSE(run.has_said("peer-0: "));
}

TEST_CASE("a launch says why a peer did not start and where the rest of its output is",
          "[process]") {
  const TemporaryFolder folder;
  std::string output;
  const Ending ending = run_grapevine({"launch", "-n", "1", "--folder", folder.path().string(),
                                       "--", "/bin/sh", "-c", "echo one; echo no luck; exit 3"},
                                      output);
  CHECK(ending.exit_code == 1);
  CHECK_THAT(
      output,
      Catch::EndsWith("launch: peer-0 ended with exit code 3 before it joined; the last line of " +
                      (folder.path() / "peer-0" / "output.log").string() + ": no luck\n"));
}

TEST_CASE("nobody is left behind standing still when the launcher itself is killed", "[process]") {
  FaultyRun run(2, endless_config(), fault("kind = \"stop\"\nat_s = 0.5\npeers = 1"));
  REQUIRE(eventually([&] { return run.all_train(); }, 30s));
  std::vector<long> pids;
  for (std::size_t number = 0; number < 2; ++number) {
    pids.push_back(run.status(number)["self"].value("pid", 0L));
  }
  REQUIRE(eventually([&] { return process_state(pids[1]) == 'T'; }, 30s));
  run.launcher().signal(SIGKILL);
  for (const long pid : pids) {
    CHECK(eventually(
        [&] {
          const char state = process_state(pid);
          return state == 0 || state == 'Z';
        },
        20s));
  }
  // The peers ended as if told to leave, and wrote their models.
  CHECK(std::filesystem::exists(run.peer(0) / "result.json"));
  CHECK(std::filesystem::exists(run.peer(1) / "result.json"));
}

TEST_CASE("faults that cannot be are all told at once and nothing is started", "[process]") {
  const TemporaryFolder folder;
  const auto run = folder.path() / "run";
  const auto file = (folder.path() / "faults.toml").string();
  std::ofstream(file) << "[scenario]\n"
                      << fault("kind = \"clock_jump\"\njump_s = 1") << fault("kind = \"disk_full\"")
                      << fault("kind = \"kill\"\npeers = 4") << fault("kind = \"kil\"");
  std::string output;
  const Ending ending =
      run_grapevine({"launch", "-n", "4", "--folder", run.string(), "--faults", file}, output);
  INFO(output);
  CHECK(ending.exit_code == 2);
  CHECK(output.find("clock_jump can only befall virtual peers") != std::string::npos);
  CHECK(output.find("disk_full can only befall virtual peers; run it with grapevine sim") !=
        std::string::npos);
  CHECK(output.find("there is no peer 4 among 4") != std::string::npos);
  CHECK(output.find("scenario.fault[3].kind") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(run));
}

TEST_CASE("a config's own scenario counts when no file of faults is given", "[process]") {
  const TemporaryFolder folder;
  const auto config = (folder.path() / "run.toml").string();
  std::ofstream(config) << long_run(40000) << "[scenario]\n"
                        << fault("kind = \"restart\"\nat_s = 0.2\npeers = 1");
  std::string output;
  const auto run = (folder.path() / "run").string();
  CHECK(run_grapevine({"launch", "-n", "2", config, "--folder", run}, output).exit_code == 0);
  INFO(output);
  CHECK(output.find("restart 1") != std::string::npos);
  CHECK(output.find("injected     1 restart") != std::string::npos);
}

TEST_CASE("a peer dials from the address it was told and its lanes listen where they should",
          "[process]") {
  asio::io_context io;
  using asio::ip::tcp;
  tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0));
  const std::uint16_t port = acceptor.local_endpoint().port();
  Swarm swarm(2, endless_config());
  std::optional<std::string> came_from;
  acceptor.async_accept([&](asio::error_code error, tcp::socket socket) {
    if (!error) came_from = socket.remote_endpoint().address().to_string();
  });
  swarm.start(0, {.listen = "127.1.0.77:0",
                  .extra = {"--dial-from", "127.1.0.77", "--lane-port", "0", "--lane", "tls",
                            "--join", "127.0.0.1:" + std::to_string(port)}});
  CHECK(eventually(
      [&] {
        io.poll();
        return came_from.has_value();
      },
      20s));
  CHECK(came_from.value_or("nowhere") == "127.1.0.77");
  // Start a second peer, whose lanes also dial from an address of their own.
  swarm.start(1, {.extra = {"--dial-from", "127.1.0.78", "--lane", "tls"}});
  CHECK(swarm.exchanges_go_on(1));
  bool over_tls = false;
  for (const auto& event : swarm.events(1, "lane_opened")) {
    over_tls = over_tls || event.value("detail", "") == "tls";
  }
  CHECK(over_tls);
}

TEST_CASE("an address that is none of this machine cannot be dialled from and the remedy is told",
          "[process]") {
  Swarm swarm(1, endless_config());
  std::string output;
  const std::vector<std::string> usual = {"peer",         swarm.config_file().string(),
                                          "--folder",     swarm.folder(0).string(),
                                          "--key",        (swarm.folder(0) / "key").string(),
                                          "--authorized", swarm.authorized_file().string(),
                                          "--listen",     "127.0.0.1:0"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), usual.begin(), usual.end());
    return run_grapevine(more, output).exit_code;
  };
  CHECK(with({"--dial-from", "192.0.2.77"}) == 1);
  CHECK(output.find("--dial-from 192.0.2.77: no such address here") != std::string::npos);
  CHECK(with({"--lane", "fast"}) == 2);
  CHECK(output.find("write auto, tls, plain or unix") != std::string::npos);
  CHECK(with({"--lane", "plain"}) == 2);
  CHECK(output.find("network.trusted") != std::string::npos);
}

TEST_CASE("in lockstep the ring stands in the one order without slow links and status says so",
          "[process]") {
  // Among the ten pairs of five peers, those with neighbouring numbers are slow. The remaining
  // links form a single ring: 0 2 4 1 3.
  std::string faults;
  for (int from = 0; from < 5; ++from) {
    faults += fault("kind = \"slow_link\"\nat_s = 0\nbandwidth_mbit = 16\npeers = " +
                    std::to_string(from) + "\nto = " + std::to_string((from + 1) % 5));
  }
  const std::string config =
      "[run]\nmode = \"allreduce\"\nsteps = 100000000\nwait_for_peers = 5\n"
      "[data]\nkind = \"generated\"\n[data.generated]\nsamples = 4000\n"
      "[model]\nkind = \"mlp\"\nhidden = [512, 128]\n[allreduce]\nalgorithm = \"ring\"\n";
  FaultyRun run(5, config, faults);
  Json status;
  const auto order = [&] {
    std::vector<std::string> names;
    status = run.status(0);
    // The first generation has not measured any links yet, and may have this order by chance.
    if (!status.is_object() || !status.contains("slowest_link")) return names;
    for (const Json& name : status["allreduce"]["order"]) names.push_back(name.get<std::string>());
    return names;
  };
  const auto is_fast = [&](const std::vector<std::string>& allreduce) {
    if (allreduce.size() != 5) return false;
    for (std::size_t i = 0; i < allreduce.size(); ++i) {
      const int apart =
          std::abs(allreduce[i].back() - allreduce[(i + 1) % allreduce.size()].back());
      if (apart == 1 || apart == 4) return false;
    }
    return true;
  };
  const bool found = eventually([&] { return is_fast(order()); }, 120s);
  INFO(status.dump(1));
  REQUIRE(found);
  // 16 Mbit/s are 2 MB/s. Processors are busy too, so the exact speed of the other links is
  // unknown.
  CHECK(status["slowest_link"].value("bytes_per_second", 0.0) > 4e6);
  CHECK(status["allreduce"].value("algorithm", "") == "ring");
  std::string table;
  // Between two generations there is neither an order nor a slowest link.
  CHECK(eventually(
      [&] {
        table.clear();
        return run_grapevine({"status", run.peer(0).string()}, table).exit_code == 0 &&
               table.find("slowest link peer-") != std::string::npos;
      },
      20s));
  CHECK(table.find("sums by ring, in the order peer-") != std::string::npos);
  CHECK(run.interrupt() == 0);
}

TEST_CASE("a program that cannot be started is an error at once") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(ChildProcess({"/nowhere/program"}, folder.path() / "output"),
                    "cannot start /nowhere/program: No such file or directory");
}

TEST_CASE("who stands still goes on when the group of a run ends, though its parent lives") {
  const TemporaryFolder folder;
  const auto state = [](const ChildProcess& child) {
    std::ifstream in("/proc/" + std::to_string(child.pid()) + "/stat");
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const std::size_t name_end = text.rfind(')');
    return name_end + 2 < text.size() ? text[name_end + 2] : '?';
  };
  auto group = std::make_unique<ProcessGroup>();
  ChildProcess child({"/bin/sleep", "100"}, folder.path() / "output", group->id());
  child.signal(SIGSTOP);
  REQUIRE(eventually([&] { return state(child) == 'T'; }, 20s));
  group.reset();
  // The kernel wakes a stopped process group only if no member has a parent outside it. This group
  // has a member with such a parent.
  CHECK(eventually([&] { return state(child) == 'S'; }, 20s));
}

TEST_CASE("faults that find no target are listed with their reasons", "[process]") {
  FaultyRun run(3, endless_config(quick_membership),
                fault("kind = \"kill\"\npeers = 2\nat_s = 0.1") +
                    fault("kind = \"join\"\npeers = 2\nat_s = 0.5") +
                    fault("kind = \"continue\"\npeers = 0\nat_s = 0.6") +
                    fault("kind = \"stop\"\npeers = 1\nat_s = 3600"));
  REQUIRE(eventually([&] { return run.has_said("continue 0: skipped") && run.all_train(); }, 60s));
  CHECK(run.interrupt() == 0);
  INFO(run.output());
  CHECK(run.has_said("   0.1 s  kill 2: skipped, peer-2 had not joined yet\n"));
  CHECK(
      run.has_said("injected     1 join; skipped 3: kill at 0.1 s (peer-2 had not joined yet), "
                   "continue at 0.6 s (peer-0 was not stopped), stop at 3600 s (the run ended "
                   "first)\n"));
  const Json skipped = run.summary()["faults"]["skipped"];
  REQUIRE(skipped.size() == 3);
  CHECK(skipped[0] == Json{{"fault", "kill"}, {"at_s", 0.1}, {"why", "peer-2 had not joined yet"}});
}

}  // namespace gv
