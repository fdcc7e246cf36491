// Whole runs of real peers: alone, resumed, launched, or given wrong arguments.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "peer/config/config.hpp"
#include "peer/config/task.hpp"
#include "tests/process/swarm.hpp"
#include "train/built_in_learner.hpp"
#include "train/checkpoint/checkpoint.hpp"
#include "train/evaluation.hpp"
#include "train/model.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// A short run on the generated task.
std::string short_run(const std::string& gossip, std::uint64_t steps = 400) {
  return "[run]\nbudget = \"peer\"\nsteps = " + std::to_string(steps) +
         "\n[data]\nkind = \"generated\"\n[data.generated]\nsamples = 4000\ntest_samples = 1000\n"
         "[model]\nkind = \"mlp\"\nhidden = [32]\n[train]\nbatch = 32\nlearning_rate = 0.02\n"
         "schedule = \"cosine\"\n[checkpoint]\nevery_steps = 100\n[gossip]\n" +
         gossip;
}

/// The parameters that a trainer without a peer computes.
std::vector<float> serial_result(const std::filesystem::path& config_file, std::size_t shard,
                                 std::size_t peers) {
  ParsedConfig parsed = parse_config_file(config_file.string());
  parsed.config.run.peers = peers;
  const Task task = load_task(parsed.config, shard);
  const auto trainer = built_in_learner(task.trainer, task.shard);
  trainer->run_steps(task.trainer.steps);
  return {trainer->parameters().begin(), trainer->parameters().end()};
}

std::vector<float> saved_result(const Swarm& swarm, std::size_t number, std::size_t peers) {
  ParsedConfig parsed = parse_config_file(swarm.config_file().string());
  parsed.config.run.peers = peers;
  const Task task = load_task(parsed.config, number);
  const auto trainer = built_in_learner(task.trainer, task.shard);
  const auto loaded =
      load_newest_checkpoint(swarm.folder(number) / "checkpoints", trainer->layout());
  return loaded.checkpoint ? loaded.checkpoint->parameters : std::vector<float>();
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// The summary of a launched run.
nlohmann::json summary(const std::filesystem::path& folder) {
  std::ifstream in(folder / "summary.json");
  return nlohmann::json::parse(in, nullptr, false);
}

/// Reads the output of a process from a named pipe, until go_away() is called.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& pipe) : pipe_(pipe) {
    ::mkfifo(pipe.c_str(), 0600);
    file_ = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  }
  ~Reader() { go_away(); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// A prefix for a command that sends its output to this reader.
  std::vector<std::string> prefix() const {
    return {"/bin/sh", "-c", "exec \"$@\" > '" + pipe_.string() + "' 2>&1", "sh"};
  }
  bool has_read_something() {
    char byte = 0;
    return ::read(file_, &byte, 1) == 1;
  }
  void go_away() {
    if (file_ >= 0) ::close(std::exchange(file_, -1));
  }

 private:
  std::filesystem::path pipe_;
  int file_ = -1;
};

}  // namespace

TEST_CASE("a peer goes on when the reader of its output goes away", "[process]") {
  Swarm swarm(1, endless_config("[metrics]\nevery_s = 0.1\n"));
  Reader reader(swarm.folder(0) / "output");
  swarm.start(0, {.prefix = reader.prefix()});
  REQUIRE(eventually([&] { return reader.has_read_something(); }, 10s));
  reader.go_away();
  // The peer still writes a line each second, which nothing reads.
  const double until = swarm.status(0).value("uptime_s", 0.0) + 3;
  CHECK(eventually([&] { return swarm.status(0).value("uptime_s", 0.0) > until; }, 20s));
  CHECK(swarm.go_on({0}));
  swarm.signal(0, SIGTERM);
  CHECK(swarm.wait_for_end(0, 20s).exit_code == 0);
}

TEST_CASE("launch ends its peers in order when the reader of its output goes away", "[process]") {
  TemporaryFolder folder;
  std::ofstream(folder.path() / "config.toml") << endless_config();
  Reader reader(folder.path() / "output");
  std::vector<std::string> command = reader.prefix();
  for (const std::string& argument :
       {grapevine_binary(), std::string("launch"), (folder.path() / "config.toml").string(),
        std::string("-n"), std::string("2"), std::string("--folder"),
        (folder.path() / "run").string()}) {
    command.push_back(argument);
  }
  ChildProcess launch(command, folder.path() / "log");
  const auto trains = [&](const char* peer) {
    return read_text(folder.path() / "run" / peer / "events.jsonl").find("training_began") !=
           std::string::npos;
  };
  REQUIRE(eventually([&] { return trains("peer-0") && trains("peer-1"); }, 60s));
  CHECK(reader.has_read_something());
  reader.go_away();
  std::optional<Ending> ending;
  REQUIRE(eventually([&] { return ending || (ending = launch.ending()).has_value(); }, 60s));
  CHECK(to_string(*ending) == "exit code 0");
  for (const char* peer : {"peer-0", "peer-1"}) {
    CHECK(std::filesystem::exists(folder.path() / "run" / peer / "result.json"));
  }
}

TEST_CASE("launch on hosts ends its peers in order when the reader of its output goes away",
          "[process]") {
  TemporaryFolder folder;
  const std::filesystem::path root = folder.path();
  std::ofstream(root / "config.toml") << endless_config();
  std::ofstream(root / "hosts") << "one\ntwo\n";
  // In place of ssh, this script prints lines until its input ends. The sixth argument is the host.
  std::ofstream(root / "ssh") << "#!/bin/sh\nyes step &\ncat >/dev/null\nkill $!\n: >\"$0.$6\"\n";
  std::filesystem::permissions(root / "ssh", std::filesystem::perms::owner_all);
  Reader reader(root / "output");
  std::vector<std::string> command = reader.prefix();
  for (const std::string& argument :
       {grapevine_binary(), std::string("launch"), (root / "config.toml").string(),
        std::string("--hosts"), (root / "hosts").string(), std::string("--ssh"),
        (root / "ssh").string()}) {
    command.push_back(argument);
  }
  ChildProcess launch(command, root / "log");
  REQUIRE(eventually([&] { return reader.has_read_something(); }, 60s));
  reader.go_away();
  std::optional<Ending> ending;
  REQUIRE(eventually([&] { return ending || (ending = launch.ending()).has_value(); }, 60s));
  CHECK(to_string(*ending) == "exit code 0");
  for (const char* host : {"one", "two"}) {
    INFO(host);
    CHECK(std::filesystem::exists(root / ("ssh." + std::string(host))));
  }
}

TEST_CASE("one peer alone trains bit for bit like the serial trainer", "[process]") {
  Swarm swarm(1, short_run("period_steps = 8\n"));
  swarm.start(0);
  REQUIRE(swarm.wait_for_end(0, 60s).exit_code == 0);
  const auto expected = serial_result(swarm.config_file(), 0, 1);
  REQUIRE_FALSE(expected.empty());
  CHECK(same_bits(saved_result(swarm, 0, 1), expected));
}

TEST_CASE("a second peer in a run folder is refused until the first is gone", "[process]") {
  Swarm swarm(2, endless_config());
  swarm.start(0);
  const std::vector<std::string> second = {"peer",         swarm.config_file().string(),
                                           "--folder",     swarm.folder(0).string(),
                                           "--key",        (swarm.folder(1) / "key").string(),
                                           "--authorized", swarm.authorized_file().string(),
                                           "--listen",     "127.0.0.1:0"};
  std::string output;
  CHECK(run_grapevine(second, output).exit_code == 2);
  const std::string pid = std::to_string(swarm.status(0)["self"].value("pid", 0L));
  CHECK(output.find("another peer runs in this folder (pid " + pid + ")") != output.npos);
  CHECK(swarm.go_on({0}));
  // The lock is released when its process dies.
  swarm.kill(0);
  swarm.start(0, {.extra = {"--resume"}});
  CHECK(swarm.go_on({0}));
}

TEST_CASE("with alpha 0 peers train bit for bit as if each were alone", "[process]") {
  Swarm swarm(3, short_run("period_steps = 8\nalpha = 0\n"));
  swarm.start_all();
  for (std::size_t number = 0; number < 3; ++number) {
    REQUIRE(swarm.wait_for_end(number, 60s).exit_code == 0);
  }
  for (std::size_t number = 0; number < 3; ++number) {
    CHECK(same_bits(saved_result(swarm, number, 3), serial_result(swarm.config_file(), number, 3)));
  }
}

TEST_CASE("a resumed peer continues the same curve bit for bit", "[process]") {
  Swarm swarm(1, short_run("period_steps = 8\n", 20000));
  swarm.start(0);
  REQUIRE(eventually([&] { return swarm.step(0) > 300; }, 30s));
  swarm.kill(0);
  swarm.start(0, {.extra = {"--resume"}});
  REQUIRE(swarm.wait_for_end(0, 120s).exit_code == 0);
  const auto resumed = swarm.events(0, "resumed");
  REQUIRE(resumed.size() == 1);
  CHECK(resumed.front().value("step", 0.0) >= 100);
  CHECK(same_bits(saved_result(swarm, 0, 1), serial_result(swarm.config_file(), 0, 1)));
}

TEST_CASE("the run folder of an earlier version is refused in one line", "[process]") {
  Swarm swarm(1, short_run("period_steps = 8\n"));
  swarm.start(0);
  REQUIRE(swarm.wait_for_end(0, 60s).exit_code == 0);
  std::filesystem::remove(swarm.folder(0) / "format");
  swarm.start(0, {.extra = {"--resume"}});
  CHECK(swarm.wait_for_end(0, 60s).exit_code == 2);
  const std::string said = swarm.output(0);
  CHECK_THAT(said, Catch::Contains("is the folder of a run by another version of this program"));
  CHECK_THAT(said, Catch::Contains("begin a new run without --resume"));
}

TEST_CASE("a torn checkpoint is refused with its reason and the one before it is used",
          "[process]") {
  Swarm swarm(1, short_run("period_steps = 8\n"));
  swarm.start(0);
  REQUIRE(swarm.wait_for_end(0, 60s).exit_code == 0);
  const auto newest = swarm.folder(0) / "checkpoints" / "step-0000000400.safetensors";
  REQUIRE(std::filesystem::exists(newest));
  std::filesystem::resize_file(newest, std::filesystem::file_size(newest) - 100);
  swarm.start(0, {.extra = {"--resume"}});
  REQUIRE(swarm.wait_for_end(0, 60s).exit_code == 0);
  const auto refused = swarm.events(0, "checkpoint_refused");
  REQUIRE(refused.size() == 1);
  CHECK(refused.front().value("detail", "").find("step-0000000400") != std::string::npos);
  const auto resumed = swarm.events(0, "resumed");
  REQUIRE(resumed.size() == 1);
  CHECK(resumed.front().value("step", 0.0) < 400);
  CHECK(same_bits(saved_result(swarm, 0, 1), serial_result(swarm.config_file(), 0, 1)));
}

TEST_CASE("a peer that cannot save its model ends with an exit code that says so", "[process]") {
  std::string config = short_run("", 200);
  config.erase(config.find("budget"), config.find("steps") - config.find("budget"));
  Swarm swarm(1, config);
  std::filesystem::create_directories(swarm.folder(0));
  std::ofstream(swarm.folder(0) / "checkpoints") << "not a folder";
  swarm.start(0);
  CHECK(swarm.wait_for_end(0, 60s).exit_code == 1);
  CHECK_FALSE(swarm.events(0, "save_failed").empty());
  const auto result = nlohmann::json::parse(read_text(swarm.folder(0) / "result.json"));
  CHECK(result["checkpoints"]["failed"] > 0);
  CHECK(result["checkpoints"]["written"] == 0);
  CHECK(std::filesystem::exists(swarm.folder(0) / "final.safetensors"));
}

TEST_CASE("a peer that resumes with another optimiser is refused and its checkpoints stay",
          "[process]") {
  std::string config = short_run("period_steps = 8\n");
  Swarm swarm(1, config);
  swarm.start(0);
  REQUIRE(swarm.wait_for_end(0, 60s).exit_code == 0);
  const auto newest = swarm.folder(0) / "checkpoints" / "step-0000000400.safetensors";
  const std::string before = read_text(newest);
  REQUIRE_FALSE(before.empty());
  config.insert(config.find("batch = 32"), "optimizer = \"adam\"\n");
  std::ofstream(swarm.config_file()) << config;
  swarm.start(0, {.extra = {"--resume"}});
  CHECK(swarm.wait_for_end(0, 60s).exit_code == 2);
  CHECK_THAT(swarm.output(0), Catch::Contains("does not fit these settings") &&
                                  Catch::Contains("step-0000000400") &&
                                  Catch::Contains("start without --resume"));
  CHECK(read_text(newest) == before);
  // Without --resume, the checkpoints are moved aside and the run starts over.
  swarm.start(0);
  CHECK(swarm.wait_for_end(0, 60s).exit_code == 0);
  CHECK(read_text(swarm.folder(0) / "earlier-1" / "checkpoints" / "step-0000000400.safetensors") ==
        before);
}

TEST_CASE("a start that is refused leaves the folder of a finished run as it was", "[process]") {
  Swarm swarm(1, short_run("period_steps = 8\n"));
  swarm.start(0);
  REQUIRE(swarm.wait_for_end(0, 60s).exit_code == 0);
  const std::filesystem::path folder = swarm.folder(0);
  const auto newest = folder / "checkpoints" / "step-0000000400.safetensors";
  std::ofstream(folder / "settings_revision") << "of the finished run";
  const std::string model = read_text(newest), result = read_text(folder / "result.json");
  REQUIRE_FALSE(model.empty());
  REQUIRE_FALSE(result.empty());
  const auto is_unchanged = [&] {
    return read_text(newest) == model && read_text(folder / "result.json") == result &&
           read_text(folder / "settings_revision") == "of the finished run" &&
           !std::filesystem::exists(folder / "earlier-1");
  };
  asio::io_context io;
  const asio::ip::tcp::acceptor other(io, {asio::ip::make_address("127.0.0.1"), 0});
  const std::string taken = "127.0.0.1:" + std::to_string(other.local_endpoint().port());
  swarm.start(0, {.listen = taken});
  CHECK(swarm.wait_for_end(0, 60s).exit_code == 2);
  CHECK_THAT(swarm.output(0), Catch::Contains(taken + ": cannot listen there"));
  CHECK(is_unchanged());

  const std::string config = read_text(swarm.config_file());
  std::ofstream(swarm.config_file()) << "[data]\nkind = \"csv\"\nfolder = \"/nowhere\"\n";
  swarm.start(0);
  CHECK(swarm.wait_for_end(0, 60s).exit_code == 2);
  CHECK(is_unchanged());

  // A start that is not refused begins a new run.
  std::ofstream(swarm.config_file()) << config;
  swarm.start(0);
  CHECK(swarm.wait_for_end(0, 60s).exit_code == 0);
  CHECK(read_text(folder / "earlier-1" / "checkpoints" / "step-0000000400.safetensors") == model);
  CHECK_FALSE(std::filesystem::exists(folder / "settings_revision"));
}

TEST_CASE("a peer that resumes without a sound checkpoint says so and keeps the damaged ones",
          "[process]") {
  Swarm swarm(1, short_run("period_steps = 8\n"));
  const auto checkpoints = swarm.folder(0) / "checkpoints";
  swarm.start(0, {.extra = {"--resume"}});
  REQUIRE(swarm.wait_for_end(0, 60s).exit_code == 0);
  CHECK_THAT(swarm.output(0), Catch::Contains(checkpoints.string() + " has no checkpoint"));
  for (const auto& file : parameter_files(checkpoints)) std::filesystem::resize_file(file, 100);
  const std::size_t damaged = parameter_files(checkpoints).size();
  REQUIRE(damaged > 0);
  swarm.start(0, {.extra = {"--resume"}});
  REQUIRE(swarm.wait_for_end(0, 60s).exit_code == 0);
  CHECK_THAT(swarm.output(0), Catch::Contains("no sound checkpoint in " + checkpoints.string()));
  CHECK(parameter_files(swarm.folder(0) / "earlier-1" / "checkpoints").size() == damaged);
}

TEST_CASE("a peer without an answer at --join ends without a step", "[process]") {
  Swarm swarm(2, short_run(""));
  // Port 9 of this machine has no listener.
  swarm.start(0, {.extra = {"--join", "127.0.0.1:9"}});
  CHECK(swarm.wait_for_end(0, 90s).exit_code == 2);
  CHECK_THAT(swarm.output(0), Catch::Contains("no authorised peer answered within 30 s"));
  CHECK(swarm.events(0, "training_began").empty());
}

TEST_CASE("launch without a config trains a generated task and evaluates the mean model",
          "[process]") {
  const TemporaryFolder folder;
  const auto run = folder.path() / "run";
  std::string output;
  const Ending ending =
      run_grapevine({"launch", "-n", "4", "--folder", run.string()}, output, 120s);
  INFO(output);
  CHECK(ending.exit_code == 0);
  CHECK(ending.signal == 0);
  const auto result = summary(run);
  REQUIRE(result.is_object());
  CHECK(result.value("mean_accuracy", 0.0) > 0.85);
  CHECK(result.value("mean_accuracy", 0.0) - result.value("worst_accuracy", 0.0) < 0.007);
  CHECK(result.value("exchanges", 0) > 100);
  CHECK(result.value("undecided", 1) == 0);
  for (const char* line : {"mean model", "worst peer", "spread", "wall time", "steps", "exchanges",
                           "bytes", "failures"}) {
    CHECK(output.find(line) != std::string::npos);
  }
  std::string evaluation;
  CHECK(run_grapevine({"eval", (run / "mean.safetensors").string()}, evaluation).exit_code == 0);
  CHECK(evaluation.starts_with("accuracy "));
}

TEST_CASE("a launched run's mean model knows its config and is evaluated by name alone",
          "[process]") {
  const TemporaryFolder folder;
  const auto config = folder.path() / "small.toml";
  std::ofstream(config) << short_run("period_steps = 16\n");
  std::string output;
  REQUIRE(run_grapevine(
              {"launch", "-n", "2", config.string(), "--folder", (folder.path() / "run").string()},
              output, 60s)
              .exit_code == 0);
  const auto result = summary(folder.path() / "run");
  // The model needs neither its original location nor the config file any more.
  std::filesystem::remove(config);
  std::filesystem::rename(folder.path() / "run" / "mean.safetensors", folder.path() / "model");
  CHECK(run_grapevine({"eval", (folder.path() / "model").string()}, output).exit_code == 0);
  INFO(output);
  // The accuracy is printed as a percentage with two decimal places.
  CHECK(std::stod(output.substr(std::strlen("accuracy "))) ==
        Approx(100 * result.value("mean_accuracy", 0.0)).margin(0.006));
}

TEST_CASE("a config with twelve mistakes lists all twelve and starts nothing", "[process]") {
  const TemporaryFolder folder;
  const auto run = folder.path() / "run";
  std::string output;
  const Ending ending =
      run_grapevine({"launch", std::string(GRAPEVINE_SOURCE_DIR) + "/tests/bad_configs/twelve.toml",
                     "--folder", run.string()},
                    output);
  CHECK(ending.exit_code == 2);
  CHECK(std::ranges::count(output, '\n') == 12);
  CHECK_FALSE(std::filesystem::exists(run));
}

TEST_CASE("arguments that cannot work are listed at once with remedies and nothing starts",
          "[process]") {
  Swarm swarm(1, short_run("period_steps = 8\n"));
  std::string output;
  const Ending ending = run_grapevine(
      {"peer", swarm.config_file().string(), "--key", (swarm.folder(0) / "key").string(),
       "--authorized", swarm.authorized_file().string(), "--folder", swarm.folder(0).string(),
       "--listen", "0.0.0.0:7000", "--join", "nowhere", "--shard", "4/4"},
      output);
  CHECK(ending.exit_code == 2);
  for (const char* words : {"--listen: ", "--advertise HOST:PORT", "--join: ", "--shard: "}) {
    CHECK(output.find(words) != std::string::npos);
  }
  CHECK_FALSE(std::filesystem::exists(swarm.folder(0) / "events.jsonl"));
}

TEST_CASE("a run folder that cannot be written to is refused in one line", "[process]") {
  Swarm swarm(1, short_run("period_steps = 8\n"));
  std::string output;
  const auto start = [&](const std::string& folder) {
    return run_grapevine(
        {"peer", swarm.config_file().string(), "--key", (swarm.folder(0) / "key").string(),
         "--authorized", swarm.authorized_file().string(), "--listen", "127.0.0.1:0", "--folder",
         folder},
        output);
  };
  // No user can make a folder in /proc, not even root.
  CHECK(start("/proc/grapevine-run").exit_code == 2);
  CHECK(output.starts_with("/proc/grapevine-run: cannot be written to: "));
  CHECK(output.ends_with("; choose another --folder\n"));
  CHECK(std::ranges::count(output, '\n') == 1);
}

TEST_CASE("status shows members and steps and the metrics file is in Prometheus form",
          "[process]") {
  Swarm swarm(2, short_run("period_steps = 8\n", 100000000) + "[metrics]\nevery_s = 0.5\n");
  swarm.start_all();
  REQUIRE(eventually([&] { return swarm.step(0) > 100; }, 30s));
  REQUIRE(eventually([&] { return swarm.state_of(0, 1) == "alive"; }, 10s));
  std::string table;
  REQUIRE(run_grapevine({"status", swarm.folder(0).string()}, table).exit_code == 0);
  CHECK(table.find("peer-0") != std::string::npos);
  CHECK(table.find("peer-1") != std::string::npos);
  CHECK(table.find("alive") != std::string::npos);
  CHECK(table.find("spread") != std::string::npos);
  const auto metrics = swarm.folder(0) / "metrics.prom";
  REQUIRE(eventually([&] { return std::filesystem::exists(metrics); }, 10s));
  std::istringstream lines(read_text(metrics));
  std::size_t samples = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ") || line.starts_with("# TYPE ")) continue;
    std::istringstream fields(line);
    std::string name;
    double value = 0;
    CHECK((fields >> name >> value));
    CHECK(name.starts_with("grapevine_"));
    ++samples;
  }
  CHECK(samples > 15);
}

TEST_CASE("peers whose settings disagree refuse each other and name the field", "[process]") {
  Swarm swarm(2, short_run("period_steps = 8\n", 100000000));
  swarm.start(0);
  const auto other = swarm.config_file().parent_path() / "other.toml";
  std::ofstream(other) << short_run("period_steps = 16\n", 100000000);
  std::string output;
  const Ending ending = run_grapevine(
      {"peer", other.string(), "--name", "peer-1", "--folder", swarm.folder(1).string(), "--key",
       (swarm.folder(1) / "key").string(), "--authorized", swarm.authorized_file().string(),
       "--shard", "1/2", "--join", swarm.status(0)["self"].value("advertised", "")},
      output);
  CHECK(ending.exit_code == 2);
  CHECK(output.find("gossip.period_steps") != std::string::npos);
  CHECK(swarm.is_running(0));
}

TEST_CASE("a peer dials the addresses on its list without --join", "[process]") {
  Swarm swarm(2, short_run("period_steps = 8\n", 100000000));
  // The first start finds a free port. That address is then written into the list.
  swarm.start(0);
  const std::string address = swarm.status(0)["self"].value("advertised", "");
  swarm.kill(0);
  swarm.change_list([&](const std::string& line) {
    return line.starts_with("peer-0 ") ? line + " " + address : line;
  });
  // The second peer cannot be dialled, and starts before the first one runs again.
  swarm.start(1, {.listen = ""});
  swarm.start(0, {.listen = address});
  CHECK(eventually(
      [&] { return swarm.state_of(0, 1) == "alive" && swarm.state_of(1, 0) == "alive"; }, 30s));
  // The second peer did not begin with its own model before it met the first one. If the first peer
  // has made steps by then, the second peer downloads the first peer's model.
  REQUIRE(eventually(
      [&] {
        return !swarm.events(1, "training_began").empty() ||
               !swarm.events(1, "model_fetched").empty();
      },
      30s));
  for (const auto& event : swarm.events(1, "training_began")) CHECK(event["peers"] == 2);
  CHECK(swarm.output(1).find("--join") == std::string::npos);
}

TEST_CASE("killed peers cost at most a point of accuracy and a restarted one contributes",
          "[process]") {
  const std::string config = short_run("period_steps = 16\n", 150000);
  const auto accuracy = [](Swarm& swarm) {
    ParsedConfig parsed = parse_config_file(swarm.config_file().string());
    const TestSet test = load_test_set(parsed.config);
    Model model(test.model, test.data->shape, 256);
    double best = 0;
    for (std::size_t number = 1; number < 4; ++number) {
      const auto parameters = saved_result(swarm, number, 4);
      if (!parameters.empty())
        best = std::max(best, evaluate(model, parameters, *test.data).accuracy());
    }
    return best;
  };
  Swarm calm(4, config);
  calm.start_all();
  for (std::size_t number = 0; number < 4; ++number) calm.wait_for_end(number, 120s);

  Swarm troubled(4, config);
  troubled.start_all();
  REQUIRE(eventually([&] { return troubled.step(0) > 5000; }, 60s));
  troubled.kill(0);
  REQUIRE(eventually([&] { return troubled.step(1) > 15000; }, 60s));
  troubled.kill(2);
  troubled.start(2, {.extra = {"--wait-for", "2"}});
  for (const std::size_t number : {1u, 2u, 3u}) {
    CHECK(troubled.wait_for_end(number, 120s).exit_code == 0);
  }
  std::ifstream in(troubled.folder(2) / "result.json");
  const auto restarted = nlohmann::json::parse(in, nullptr, false);
  REQUIRE(restarted.is_object());
  CHECK(restarted["gossip"].value("models_fetched", 0) == 1);
  CHECK(restarted["exchanges"].value("committed", 0) > 10);
  CHECK(accuracy(calm) > 0.8);
  CHECK(accuracy(troubled) > accuracy(calm) - 0.01);
}

}  // namespace gv
