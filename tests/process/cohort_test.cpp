// Cohorts of real processes that share a secret and take their ranks from an engine's variables.
#include "net/cohort.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "peer/host/peer_socket.hpp"
#include "tests/process/swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// Processes of a cohort of three. Each gets the rank variables of torchrun, and no other
/// environment variables.
class CohortRun {
 public:
  explicit CohortRun(const std::string& mode = "gossip", double wait_max_s = 60) {
    std::ofstream(config()) << fmt::format(R"([run]
mode = "{}"
steps = 100000000
wait_max_s = {}
folder = "{}"
[data]
kind = "generated"
[data.generated]
samples = 4000
test_samples = 500
[model]
kind = "mlp"
hidden = [32]
[train]
batch = 32
[checkpoint]
every_steps = 0
{})",
                                           mode, wait_max_s, root().string(),
                                           mode == "gossip" ? "[gossip]\nperiod_steps = 64\n" : "");
    REQUIRE(save_cohort_secret(secret(), generate_cohort_secret()).empty());
  }

  std::filesystem::path root() const { return root_.path(); }
  std::string config() const { return (root() / "config.toml").string(); }
  std::string secret() const { return (root() / "cohort").string(); }
  std::filesystem::path rendezvous() const { return secret() + ".peers"; }
  std::filesystem::path folder(std::size_t rank) const { return root() / name_of_rank(rank); }

  static std::vector<std::string> variables(std::size_t rank, std::size_t ranks = 3) {
    return {fmt::format("RANK={}", rank), fmt::format("WORLD_SIZE={}", ranks)};
  }

  /// Starts the program with only these variables. Returns the index of the process.
  std::size_t start(const std::vector<std::string>& environment,
                    const std::vector<std::string>& options) {
    std::vector<std::string> words = {"/usr/bin/env", "-i"};
    words.insert(words.end(), environment.begin(), environment.end());
    words.push_back(grapevine_binary());
    words.insert(words.end(), options.begin(), options.end());
    outputs_.push_back(root() / fmt::format("output-{}", outputs_.size()));
    processes_.push_back(std::make_unique<ChildProcess>(words, outputs_.back()));
    return processes_.size() - 1;
  }

  std::size_t start_rank(std::size_t rank, const std::vector<std::string>& more = {}) {
    std::vector<std::string> options = {"peer",   config(),   "--cohort",
                                        secret(), "--listen", "127.0.0.1:0"};
    options.insert(options.end(), more.begin(), more.end());
    return start(variables(rank), options);
  }

  std::string output(std::size_t process) const {
    std::ifstream in(outputs_[process], std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  bool is_running(std::size_t process) { return !processes_[process]->ending().has_value(); }
  void signal(std::size_t process, int number) { processes_[process]->signal(number); }

  /// Waits for a process to end by itself. Returns its exit code, or -1 if it does not end in time.
  int exit_code(std::size_t process) {
    const bool has_ended = eventually([&] { return !is_running(process); }, 60s);
    return has_ended ? processes_[process]->ending()->exit_code : -1;
  }

  static nlohmann::json status(const std::filesystem::path& folder) {
    const auto document = ask_peer(folder, {}, 500);
    if (!document) return nullptr;
    nlohmann::json json = nlohmann::json::parse(*document, nullptr, false);
    return json.is_object() ? json : nlohmann::json(nullptr);
  }

  /// The number of live peers known to the peer in this folder, itself included.
  static std::size_t alive(const std::filesystem::path& folder) {
    const nlohmann::json document = status(folder);
    if (document.is_null()) return 0;
    std::size_t count = 0;
    for (const auto& member : document["members"]) {
      if (member.value("state", "") == "alive") ++count;
    }
    return count;
  }
  std::size_t alive(std::size_t rank) const { return alive(folder(rank)); }

  std::uint64_t step(std::size_t rank) const {
    const nlohmann::json document = status(folder(rank));
    return document.is_null() ? 0 : document.value("step", 0ULL);
  }

  std::uint64_t exchanges(std::size_t rank) const {
    const nlohmann::json document = status(folder(rank));
    return document.is_null() ? 0 : document["exchanges"].value("committed", 0ULL);
  }

 private:
  TemporaryFolder root_;
  std::vector<std::filesystem::path> outputs_;
  std::vector<std::unique_ptr<ChildProcess>> processes_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a rank that was killed and started again is found by one that it cannot dial",
          "[process]") {
  CohortRun run("gossip", 1);
  const auto start = [&](std::size_t rank, const std::vector<std::string>& more) {
    std::vector<std::string> options = {"peer",       run.config(), "--cohort",
                                        run.secret(), "--listen",   "127.0.0.1:0"};
    options.insert(options.end(), more.begin(), more.end());
    return run.start(CohortRun::variables(rank, 2), options);
  };
  // Nothing listens at port 9, so rank 1 depends on being dialled.
  start(0, {"--advertise", "127.0.0.1:9"});
  const std::size_t first = start(1, {});
  const auto both_know = [&] {
    return CohortRun::alive(run.folder(0)) == 2 && CohortRun::alive(run.folder(1)) == 2;
  };
  REQUIRE(eventually(both_know, 30s));
  run.signal(first, SIGKILL);
  REQUIRE(eventually([&] { return !run.is_running(first); }, 30s));
  start(1, {});
  CHECK(eventually(both_know, 60s));
}

TEST_CASE("peers of a cohort find each other and one with another secret gets nothing in",
          "[process]") {
  CohortRun run;
  const std::size_t first = run.start_rank(0);
  // The first peer waits for the others, and says so.
  REQUIRE(eventually([&] { return has(run.output(first), "rank-0 has met none of the 2 other"); },
                     30s));
  CHECK(run.step(0) == 0);
  run.start_rank(1);
  run.start_rank(2);
  for (const std::size_t rank : {0u, 1u, 2u}) {
    INFO(run.output(rank));
    REQUIRE(eventually([&] { return run.alive(rank) == 3; }, 30s));
    REQUIRE(eventually([&] { return run.exchanges(rank) > 5; }, 30s));
    CHECK(has(run.output(rank), fmt::format("trains on shard {} of 3", rank)));
  }

  const std::string other = (run.root() / "other").string();
  REQUIRE(save_cohort_secret(other, generate_cohort_secret()).empty());
  const std::filesystem::path apart = run.root() / "apart";
  const std::size_t stranger =
      run.start(CohortRun::variables(1),
                {"peer", run.config(), "--cohort", other, "--rendezvous", run.rendezvous().string(),
                 "--listen", "127.0.0.1:0", "--folder", apart.string()});
  REQUIRE(
      eventually([&] { return has(run.output(stranger), "has met none of the 2 other"); }, 30s));
  const std::uint64_t before = run.exchanges(0);
  CHECK(eventually([&] { return run.exchanges(0) > before + 5; }, 30s));
  CHECK(CohortRun::alive(apart) == 1);
  for (const std::size_t rank : {0u, 1u, 2u}) {
    CHECK(run.is_running(rank));
    CHECK(run.alive(rank) == 3);
  }
}

TEST_CASE("two creators with one cohort become one swarm", "[process]") {
  for (const std::string mode : {"gossip", "allreduce"}) {
    CAPTURE(mode);
    // Without a wait each peer begins alone.
    CohortRun run(mode, 0);
    run.start_rank(0);
    REQUIRE(eventually([&] { return run.step(0) > 20; }, 30s));
    run.start_rank(1);
    REQUIRE(eventually([&] { return run.alive(0) == 2 && run.alive(1) == 2; }, 30s));
    const std::uint64_t before = run.step(1);
    CHECK(eventually([&] { return run.step(0) > before + 50 && run.step(1) > before + 50; }, 60s));
    if (mode == "gossip") {
      CHECK(eventually([&] { return run.exchanges(0) > 5; }, 30s));
    } else {
      CHECK(eventually(
          [&] {
            std::ifstream in(run.folder(0) / "events.jsonl");
            const std::string events{std::istreambuf_iterator<char>(in), {}};
            return has(events, "\"peers\":2.0");
          },
          60s));
    }
  }
}

TEST_CASE("of two processes with one rank the first ends with a remedy", "[process]") {
  CohortRun run;
  const std::size_t first = run.start_rank(0);
  REQUIRE(eventually([&] { return std::filesystem::exists(run.rendezvous() / "rank-0"); }, 30s));
  const std::size_t second = run.start_rank(0, {"--folder", (run.root() / "apart").string()});
  CHECK(run.exit_code(first) == 2);
  CHECK(has(run.output(first), "rank-0: another process has taken this rank, at 127.0.0.1:"));
  CHECK(has(run.output(first), "--rank R"));
  CHECK(run.is_running(second));
}

TEST_CASE("a process with other settings does not end the healthy peer of its rank", "[process]") {
  CohortRun run;
  for (const std::size_t rank : {0u, 1u, 2u}) run.start_rank(rank);
  for (const std::size_t rank : {0u, 1u, 2u}) {
    REQUIRE(eventually([&] { return run.exchanges(rank) > 5; }, 30s));
  }
  const std::size_t misled = run.start(
      CohortRun::variables(1, 4), {"peer", run.config(), "--cohort", run.secret(), "--listen",
                                   "127.0.0.1:0", "--folder", (run.root() / "apart").string()});
  CHECK(run.exit_code(misled) == 2);
  CHECK(has(run.output(misled), " has other settings: "));
  // The healthy peer writes its file again when it finds that the other process has replaced it.
  const auto own_address = CohortRun::status(run.folder(1))["self"].value("advertised", "none");
  CHECK(eventually([&] { return read_text(run.rendezvous() / "rank-1").starts_with(own_address); },
                   30s));
  CHECK(run.is_running(1));
  CHECK(run.alive(0) == 3);
}

TEST_CASE("a peer of a cohort without its place or with an open secret is refused in one line",
          "[process]") {
  CohortRun run;
  const std::vector<std::string> peer = {"peer", run.config(), "--cohort", run.secret()};
  const auto refused = [&](const std::vector<std::string>& environment,
                           const std::vector<std::string>& more, const std::string& part) {
    std::vector<std::string> words = peer;
    words.insert(words.end(), more.begin(), more.end());
    const std::size_t process = run.start(environment, words);
    const int code = run.exit_code(process);
    const std::string output = run.output(process);
    INFO(output);
    CHECK(code == 2);
    CHECK(std::ranges::count(output, '\n') == 1);
    CHECK(has(output, part));
  };
  refused({}, {}, "does not say which rank of the cohort this peer is; start it with srun");
  refused({"JOB_COMPLETION_INDEX=1"}, {}, "pass --ranks N");
  refused({"RANK=3", "WORLD_SIZE=3"}, {}, "there is no rank 3 among 3");
  refused({}, {"--rank", "1", "--ranks", "1"}, "there is no rank 1 among 1");
  const std::string shared = (run.root() / "shared").string();
  std::filesystem::create_directory(shared);
  ::chmod(shared.c_str(), 0777);
  refused(CohortRun::variables(0), {"--rendezvous", shared}, "chmod 700 " + shared);
  ::chmod(run.secret().c_str(), 0644);
  refused(CohortRun::variables(0), {}, "chmod 600 " + run.secret());
}

TEST_CASE("env says which engine was recognised by which variables", "[process]") {
  CohortRun run;
  const std::size_t known =
      run.start({"SLURM_PROCID=1", "SLURM_NTASKS=4", "RANK=0", "WORLD_SIZE=1"}, {"env"});
  CHECK(run.exit_code(known) == 0);
  CHECK(has(run.output(known), "torchrun                 rank 0 of 1, passed over\n"));
  CHECK(has(run.output(known), "  SLURM_NTASKS=4\n"));
  CHECK(has(run.output(known), "with --cohort this is rank 1 of 4\n"));
  const std::size_t json = run.start({"PMI_RANK=2", "PMI_SIZE=3"}, {"env", "--json"});
  CHECK(run.exit_code(json) == 0);
  const auto document = nlohmann::json::parse(run.output(json), nullptr, false);
  REQUIRE(document.is_object());
  CHECK(document.value("rank", 0) == 2);
  CHECK(document["engines"][0].value("engine", "") == "MPICH");
  const std::size_t nothing = run.start({}, {"env"});
  CHECK(run.exit_code(nothing) == 2);
  CHECK(has(run.output(nothing), "--rank R --ranks N"));
}

TEST_CASE("keygen makes the secret of a cohort and never overwrites it", "[process]") {
  CohortRun run;
  const std::string file = (run.root() / "fresh").string();
  CHECK(run.exit_code(run.start({}, {"keygen", file, "--cohort"})) == 0);
  CHECK(load_cohort_secret(file).problems.empty());
  const std::size_t again = run.start({}, {"keygen", file, "--cohort"});
  CHECK(run.exit_code(again) == 2);
  CHECK(has(run.output(again), "never overwritten"));
  // A name with a blank would make every peer's list unreadable.
  const std::string key = (run.root() / "key").string();
  const std::size_t named = run.start({}, {"keygen", key, "--name", "my laptop"});
  CHECK(run.exit_code(named) == 2);
  CHECK(has(run.output(named), "--name: this is not a name"));
  CHECK_FALSE(std::filesystem::exists(key));
}

TEST_CASE("mpirun starts a cohort of four", "[process]") {
  if (std::system("command -v mpirun >/dev/null 2>&1") != 0) {
    WARN("mpirun is not installed, so this test was skipped");
    return;
  }
  CohortRun run;
  const std::filesystem::path log = run.root() / "mpirun.log";
  // Both kinds of mpirun accept -n. Unless told otherwise, Open MPI refuses to run as root or with
  // more ranks than cores.
  ChildProcess mpirun(
      {"/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
       "OMPI_MCA_rmaps_base_oversubscribe=1", "mpirun", "-n", "4", grapevine_binary(), "peer",
       run.config(), "--cohort", run.secret(), "--listen", "127.0.0.1:0"},
      log);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(eventually([&] { return run.alive(rank) == 4; }, 60s));
  }
  // mpirun passes the signal on, and the peers leave.
  mpirun.signal(SIGTERM);
  CHECK(eventually([&] { return mpirun.ending().has_value(); }, 60s));
}

}  // namespace gv
