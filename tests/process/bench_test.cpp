// `grapevine bench` with real processes: its output, refusals and files.
#include <signal.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "consensus/allreduce/reduce_algorithm.hpp"
#include "tests/process/swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

std::string content(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A measurement without an end, and a folder for its files.
struct EndlessBench {
  EndlessBench()
      : process({"/usr/bin/env", "TMPDIR=" + scratch.path().string(), grapevine_binary(), "bench",
                 "allreduce", "-n", "3", "--sizes", "256KiB", "--repeats", "1000000"},
                output.path() / "output") {}

  std::vector<pid_t> children() const {
    const std::string pid = std::to_string(process.pid());
    std::istringstream list(content("/proc/" + pid + "/task/" + pid + "/children"));
    return {std::istream_iterator<pid_t>(list), {}};
  }

  /// True if every rank runs and is ready for lanes.
  bool is_under_way() const {
    std::size_t lanes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             scratch.path(), std::filesystem::directory_options::skip_permission_denied)) {
      lanes += entry.path().filename() == "lanes" ? 1U : 0U;
    }
    return lanes == 3 && children().size() == 3;
  }

  bool is_clean() const { return std::filesystem::is_empty(scratch.path()); }
  std::string words() const { return content(output.path() / "output"); }

  TemporaryFolder scratch;
  TemporaryFolder output;
  ChildProcess process;
};

/// True if the process does not exist, or is dead and only waits to be reaped.
bool is_gone(pid_t pid) {
  const std::string status = content("/proc/" + std::to_string(pid) + "/status");
  return status.empty() || status.find("State:\tZ") != std::string::npos;
}

bool are_gone(const std::vector<pid_t>& pids) {
  return std::all_of(pids.begin(), pids.end(), is_gone);
}

}  // namespace

TEST_CASE("short blocks that all go one way over TCP do not wait for acknowledgements",
          "[process]") {
  TemporaryFolder folder;
  const auto file = folder.path() / "rows.json";
  std::string output;
  const Ending ending =
      run_grapevine({"bench", "allreduce", "-n", "4", "--sizes", "4KiB", "--algorithm", "ring",
                     "--lane", "plain", "--repeats", "30", "--json", file.string()},
                    output);
  INFO(output);
  REQUIRE(ending.exit_code == 0);
  const auto document = nlohmann::json::parse(content(file), nullptr, false);
  // Each all-reduce takes a tenth of a millisecond, or at least 40 ms if TCP waits for more data.
  CHECK(document["rows"][0].value("median_us", 1e9) < 20e3);
}

TEST_CASE("a small measurement prints a row for each size and number of peers", "[process]") {
  TemporaryFolder folder;
  const auto file = folder.path() / "rows.json";
  std::string output;
  const Ending ending = run_grapevine({"bench", "allreduce", "-n", "2,3", "--sizes",
                                       "4B,4KiB,300KiB", "--repeats", "3", "--json", file.string()},
                                      output);
  INFO(output);
  REQUIRE(ending.exit_code == 0);
  CHECK(output.find("median us") != std::string::npos);
  CHECK(output.find("300 KiB") != std::string::npos);
  const auto document = nlohmann::json::parse(content(file), nullptr, false);
  REQUIRE(document.is_object());
  REQUIRE(document["rows"].size() == 6);
  for (const auto& row : document["rows"]) {
    INFO(row);
    CHECK(row["operations"] == 3);
    CHECK(row["seconds"].size() == 3);
    CHECK(row["median_us"] > 0);
    CHECK(row["lane"] == "unix");
  }
}

TEST_CASE("every kind of lane and every algorithm sums exactly and sends what the formula says",
          "[process]") {
  TemporaryFolder folder;
  const auto file = folder.path() / "rows.json";
  for (const char* lane : {"tls", "plain", "unix"}) {
    for (const ReduceAlgorithm known : reduce_algorithms()) {
      const std::string algorithm(to_string(known));
      INFO(lane << ' ' << algorithm);
      std::string output;
      const Ending ending =
          run_grapevine({"bench", "allreduce", "-n", "4", "--sizes", "1MiB", "--repeats", "3",
                         "--lane", lane, "--algorithm", algorithm, "--json", file.string()},
                        output);
      INFO(output);
      REQUIRE(ending.exit_code == 0);
      const auto row = nlohmann::json::parse(content(file))["rows"][0];
      CHECK(row["lane"] == lane);
      // The formula leaves out headers: 40 bytes for each block of 64 KiB, and 40 for its answer.
      const double formula = row["sent_bytes_by_formula"];
      CHECK(row["sent_bytes"].get<double>() >= formula);
      CHECK(row["sent_bytes"].get<double>() <= 1.01 * formula);
    }
  }
}

TEST_CASE("methods of convolutions are timed side by side", "[process]") {
  TemporaryFolder folder;
  const auto file = folder.path() / "rows.json";
  std::string output;
  const Ending ending =
      run_grapevine({"bench", "convolution", "--shapes", "2x6x5:3k3p1,1x9x9:2k4s2", "--batch", "2",
                     "--repeats", "4", "--json", file.string()},
                    output);
  INFO(output);
  REQUIRE(ending.exit_code == 0);
  CHECK(output.find("2x6x5:3k3p1") != std::string::npos);
  const auto document = nlohmann::json::parse(content(file), nullptr, false);
  REQUIRE(document.is_object());
  CHECK(document["batch"] == 2);
  REQUIRE(document["rows"].size() == 2);
  for (const auto& row : document["rows"]) {
    INFO(row);
    CHECK(row["auto"] == "direct");
    std::set<std::string> methods;
    for (const auto& method : row["methods"]) {
      methods.insert(method["method"]);
      CHECK(method["milliseconds"] > 0);
      for (const char* pass : {"forward", "backward_input", "backward_weight"}) {
        CHECK(method[pass]["seconds"].size() == 4);
      }
    }
    CHECK(methods.contains("im2col"));
    CHECK(methods.contains("fft"));
    // Our Winograd convolution takes kernels of 3 x 3 only.
    CHECK_FALSE((row["shape"] == "1x9x9:2k4s2" && methods.contains("winograd")));
  }
  for (const char* bad : {"2x6x5", "2x6x5:3k9", "0x6x5:3k3", "2x6x5:3k3p3"}) {
    CHECK(run_grapevine({"bench", "convolution", "--shapes", bad}, output).exit_code == 2);
    CHECK(output.find("is no convolution; write for example 64x28x28:64k3p1") != std::string::npos);
  }
}

TEST_CASE("a measurement with a wrong flag runs nothing and says what is wrong", "[process]") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--sizes", "4KiB,7B"}, "'7B' is no size of a vector"},
      {{"--sizes", "2GiB"}, "'2GiB' is no size of a vector"},
      {{"--lane", "copper"}, "'copper' is no kind of lane"},
      {{"--algorithm", "star"}, "'star' is no algorithm"},
      {{"--segment", "1MiB"}, "'1MiB' is no size of a block"},
      {{"-n", "1"}, "1 not in range"},
      {{"--repeats", "few"}, "few"},
      {{"--colour"}, "--colour"}};
  for (const auto& [flags, words] : cases) {
    std::vector<std::string> command{"bench", "allreduce"};
    command.insert(command.end(), flags.begin(), flags.end());
    std::string output;
    CHECK(run_grapevine(command, output).exit_code == 2);
    INFO(output);
    CHECK(output.find(words) != std::string::npos);
    CHECK(output.find("median") == std::string::npos);
  }
}

TEST_CASE("a measurement that is killed takes its processes and its folder with it", "[process]") {
  EndlessBench bench;
  REQUIRE(eventually([&] { return bench.is_under_way(); }, 30s));
  const std::vector<pid_t> children = bench.children();
  bench.process.signal(SIGKILL);
  CHECK(eventually([&] { return are_gone(children); }, 30s));
  CHECK(eventually([&] { return bench.is_clean(); }, 30s));
}

TEST_CASE("a measurement that is told to stop ends at once and leaves nothing", "[process]") {
  EndlessBench bench;
  REQUIRE(eventually([&] { return bench.is_under_way(); }, 30s));
  const std::vector<pid_t> children = bench.children();
  bench.process.signal(SIGTERM);
  REQUIRE(eventually([&] { return bench.process.ending().has_value(); }, 30s));
  CHECK(bench.process.ending()->exit_code == 1);
  CHECK(bench.words().find("interrupted") != std::string::npos);
  CHECK(are_gone(children));
  CHECK(bench.is_clean());
}

TEST_CASE("a measurement whose rank is killed says which and leaves nothing", "[process]") {
  EndlessBench bench;
  REQUIRE(eventually([&] { return bench.is_under_way(); }, 30s));
  const std::vector<pid_t> children = bench.children();
  REQUIRE(::kill(children[1], SIGKILL) == 0);
  REQUIRE(eventually([&] { return bench.process.ending().has_value(); }, 30s));
  INFO(bench.words());
  CHECK(bench.process.ending()->exit_code == 1);
  CHECK(bench.words().find("peer-1 ended (killed by signal 9)") != std::string::npos);
  CHECK(are_gone(children));
  CHECK(bench.is_clean());
}

}  // namespace gv
