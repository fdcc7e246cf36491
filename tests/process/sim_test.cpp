// `grapevine sim` as people use it: the real binary, its exit codes and its files.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <regex>

#include "tests/process/swarm.hpp"

namespace gv {
namespace {

std::string trace_hash(const std::string& output) {
  std::smatch match;
  const bool found = std::regex_search(output, match, std::regex("trace hash +([0-9a-f]{16})"));
  return found ? match[1] : std::string();
}

std::string content(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string written(const TemporaryFolder& folder, const std::string& text) {
  const auto path = folder.path() / "scenario.toml";
  std::ofstream(path) << text;
  return path.string();
}

const std::string small = R"(
[run]
steps = 200
[gossip]
period_steps = 10
[scenario]
peers = 6
[[scenario.speed]]
peers = "0"
factor = 0.3
[[scenario.link]]
latency_s = 0.02
bandwidth_mbit = 50
[[scenario.fault]]
kind = "kill"
peers = "2"
at_s = 1
for_s = 1
)";

}  // namespace

TEST_CASE("virtual peers train and equal seeds leave equal traces and curves", "[process]") {
  TemporaryFolder folder;
  const std::string config = written(folder, small);
  std::string first;
  std::string second;
  std::string other;
  const auto curves = (folder.path() / "curves").string();
  REQUIRE(run_grapevine({"sim", config, "--seed", "7", "--folder", curves}, first).exit_code == 0);
  const std::string csv = content(folder.path() / "curves" / "curves.csv");
  REQUIRE(run_grapevine({"sim", config, "--seed", "7", "--folder", curves}, second).exit_code == 0);
  REQUIRE(run_grapevine({"sim", config, "--seed", "8", "--folder", curves}, other).exit_code == 0);
  CHECK(trace_hash(first).size() == 16);
  CHECK(trace_hash(first) == trace_hash(second));
  CHECK(trace_hash(first) != trace_hash(other));
  CHECK(csv.starts_with("time_s,accuracy,loss,spread"));
  CHECK(content(folder.path() / "curves" / "curves.svg").starts_with("<svg"));
  CHECK(content(folder.path() / "curves" / "models.svg").starts_with("<svg"));
  // The built-in task is easy, so all peers have learned it, including the killed one.
  std::smatch worst;
  REQUIRE(std::regex_search(first, worst, std::regex("worst peer +([0-9.]+) %")));
  CHECK(std::stod(worst[1]) > 85);
}

TEST_CASE("a scenario with mistakes lists them all and runs nothing", "[process]") {
  TemporaryFolder folder;
  const std::string config = written(folder, R"(
[gossip]
alhpa = 0.5
[scenario]
peers = 3
works = "time"
[[scenario.fault]]
kind = "kil"
[[scenario.fault]]
kind = "kill"
peers = "7"
)");
  std::string output;
  CHECK(run_grapevine({"sim", config}, output).exit_code == 2);
  for (const char* words : {"alpha", "scenario.works", "nearest valid one is work", "\"kill\"",
                            "there is no peer 7 among 3"}) {
    INFO(words);
    CHECK(output.find(words) != std::string::npos);
  }
  CHECK(run_grapevine({"sim", "no-such-file.toml"}, output).exit_code == 2);
  CHECK(run_grapevine({"sim", "--shrink"}, output).exit_code == 2);
}

TEST_CASE("options of sim that would have no effect are refused", "[process]") {
  TemporaryFolder folder;
  const std::string config = written(folder, small);
  const std::string out = (folder.path() / "out").string();
  std::string output;
  CHECK(run_grapevine({"sim", "--swarm", "1", "--folder", out}, output).exit_code == 2);
  CHECK(output.find("excludes") != std::string::npos);
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--traffic"}, {"--folder", out}}) {
    std::vector<std::string> arguments = {"sim", config, "--check"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    CHECK(run_grapevine(arguments, output).exit_code == 2);
    CHECK(output.find("excludes") != std::string::npos);
  }
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("a scenario is checked against every invariant when asked for", "[process]") {
  TemporaryFolder folder;
  const std::string config = written(folder, R"(
[gossip]
period_steps = 20
[scenario]
peers = 4
work = "quadratic"
until_s = 20
[[scenario.fault]]
kind = "partition"
peers = "0-1"
at_s = 5
for_s = 10
)");
  std::string output;
  CHECK(run_grapevine({"sim", config, "--check"}, output).exit_code == 0);
  CHECK(output.find("every invariant holds") != std::string::npos);
  CHECK(run_grapevine({"sim", written(folder, small), "--check"}, output).exit_code == 2);
}

}  // namespace gv
