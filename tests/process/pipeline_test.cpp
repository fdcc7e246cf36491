// Pipelines of real processes that are killed, stopped and restarted. The remaining peers continue
// with every stage.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/pipeline_points.hpp"
#include "tests/process/watched_swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

std::string pipeline(std::uint64_t steps, std::size_t stages, const std::string& more = "",
                     std::size_t every_steps = 1000) {
  return fmt::format(R"([run]
mode = "pipeline"
steps = {}
linger_s = 20
[data]
kind = "generated"
[data.generated]
samples = 4000
test_samples = 500
[model]
kind = "mlp"
hidden = [64, 48, 32]
[train]
batch = 8
[checkpoint]
every_steps = {}
[pipeline]
stages = {}
micro_batches = 6
copy_every = 20
{})",
                     steps, every_steps, stages, more);
}

/// The stages that these peers hold together, according to their status.
std::set<std::size_t> carried(Swarm& swarm, const std::vector<std::size_t>& peers) {
  std::set<std::size_t> stages;
  for (const std::size_t number : peers) {
    const nlohmann::json own = swarm.status(number)["pipeline"]["own_stages"];
    for (const auto& stage : own) stages.insert(stage.get<std::size_t>());
  }
  return stages;
}

void none_refused(Swarm& swarm, const std::vector<std::size_t>& peers) {
  for (const std::size_t number : peers) CHECK(swarm.events(number, "sum_refused").empty());
}

}  // namespace

TEST_CASE("a launched pipeline tells who carried what and evaluates the whole model", "[process]") {
  TemporaryFolder folder;
  std::string output;
  const std::filesystem::path config = folder.path() / "pipeline.toml";
  std::ofstream(config) << pipeline(300, 3);
  const Ending ending = run_grapevine(
      {"launch", "-n", "3", config.string(), "--folder", (folder.path() / "run").string()}, output);
  INFO(output);
  CHECK(ending.exit_code == 0);
  CHECK_THAT(output, Catch::Contains("train in a pipeline"));
  CHECK_THAT(output, Catch::Contains("300 together; losses 0; states of stages sent 0"));
  std::string judged;
  const Ending evaluated =
      run_grapevine({"eval", (folder.path() / "run" / "mean.safetensors").string()}, judged);
  INFO(judged);
  CHECK(evaluated.exit_code == 0);
  const auto of = judged.find("accuracy ");
  REQUIRE(of != std::string::npos);
  CHECK(std::stod(judged.substr(of + 9)) > 80);
}

TEST_CASE("a launched pipeline ends when the peer with its last stage has measured the target",
          "[process]") {
  TemporaryFolder folder;
  const auto file = [&](const std::string& name) { return (folder.path() / name).string(); };
  std::string config = pipeline(100000000, 2);
  config.insert(config.find("[data]"), "target_accuracy = 0.85\ntarget_every_epochs = 0.1\n");
  std::ofstream(file("pipeline.toml")) << config;
  std::string output;
  CHECK(run_grapevine({"launch", "-n", "2", file("pipeline.toml"), "--folder", file("run")}, output)
            .exit_code == 0);
  INFO(output);
  CHECK_THAT(output, Catch::Contains("target       0.85 reached by the mean model"));
  std::string merged;
  CHECK(
      run_grapevine(
          {"merge", file("run/peer-0"), file("run/peer-1"), "--out", file("m.safetensors")}, merged)
          .exit_code == 0);
  INFO(merged);
  // Both stages are from the same step.
  const auto first = merged.find("at step ");
  const auto second = merged.find("at step ", first + 1);
  REQUIRE(second != std::string::npos);
  const auto step_at = [&](std::size_t at) { return std::stoull(merged.substr(at + 8)); };
  CHECK(step_at(first) == step_at(second));
}

TEST_CASE("stages from the folders of several peers become one model", "[process]") {
  TemporaryFolder folder;
  const auto file = [&](const std::string& name) { return (folder.path() / name).string(); };
  std::ofstream(file("pipeline.toml")) << pipeline(100, 3);
  std::string output;
  CHECK(run_grapevine({"launch", "-n", "3", file("pipeline.toml"), "--folder", file("run")}, output)
            .exit_code == 0);
  std::vector<std::string> words = {"merge"};
  for (const char* peer : {"run/peer-0", "run/peer-1", "run/peer-2"}) words.push_back(file(peer));
  words.insert(words.end(), {"--out", file("whole.safetensors")});
  std::string merged;
  const Ending ending = run_grapevine(words, merged);
  INFO(merged);
  CHECK(ending.exit_code == 0);
  for (const char* stage : {"stage 0 at step 100", "stage 1 at step 100", "stage 2 at step 100"}) {
    CHECK_THAT(merged, Catch::Contains(stage));
  }
  // The result must be the same model that launch makes at its end.
  std::string ours, theirs;
  CHECK(run_grapevine({"eval", file("whole.safetensors")}, ours).exit_code == 0);
  CHECK(run_grapevine({"eval", file("run/mean.safetensors")}, theirs).exit_code == 0);
  CHECK(ours == theirs);
  CHECK_THAT(merged, Catch::Contains(ours));

  // Leave out one stage.
  words.erase(words.begin() + 2);
  words.back() = file("part.safetensors");
  std::string refused;
  CHECK(run_grapevine(words, refused).exit_code == 2);
  CHECK_THAT(refused, Catch::Contains("no peer left a checkpoint of stage"));
  CHECK_FALSE(std::filesystem::exists(file("part.safetensors")));
  // The folder does not belong to a peer.
  CHECK(run_grapevine({"merge", file("nothing")}, refused).exit_code == 2);
  CHECK_THAT(refused, Catch::Contains("no checkpoint below checkpoints/"));
}

TEST_CASE("when one of a pipeline is killed the others carry its stage and go on", "[process]") {
  const std::size_t victim = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{3});
  Swarm swarm(4, pipeline(100000000, 2));
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1, 2, 3}, 50));
  swarm.kill(victim);
  std::vector<std::size_t> others = {0, 1, 2, 3};
  std::erase(others, victim);
  REQUIRE(swarm.go_on(others));
  CHECK(carried(swarm, others) == std::set<std::size_t>{0, 1});
  none_refused(swarm, others);
}

TEST_CASE("when one of a group is killed the others share its stage and go on", "[process]") {
  const std::size_t victim = GENERATE(std::size_t{0}, std::size_t{2});
  Swarm swarm(3, pipeline(100000000, 1, "group = 3\n"));
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1, 2}, 50));
  swarm.kill(victim);
  std::vector<std::size_t> others = {0, 1, 2};
  std::erase(others, victim);
  REQUIRE(swarm.go_on(others));
  for (const std::size_t number : others) {
    const auto groups = swarm.status(number)["pipeline"]["groups"][0];
    REQUIRE(groups.size() == 1);
    CHECK(std::ranges::count(groups[0].get<std::string>(), '+') == 1);
  }
  none_refused(swarm, others);
}

namespace {

/// A model with one convolution that is shared by rows, and one that is shared as `split` says.
std::string images(std::size_t steps, std::size_t wait_for, const std::string& split) {
  return fmt::format(R"(
[run]
mode = "pipeline"
peers = 4
steps = {}
wait_for_peers = {}
linger_s = 2.0
[data]
partition = "shared"
[data.generated]
side = 16
features = 1
samples = 400
test_samples = 100
classes = 3
[model]
kind = "layers"
[[model.layers]]
kind = "conv2d"
units = 6
kernel = 5
padding = 2
split = "rows"
[[model.layers]]
kind = "relu"
[[model.layers]]
kind = "max_pool"
kernel = 2
[[model.layers]]
kind = "conv2d"
units = 8
kernel = 3
split = "{}"
[[model.layers]]
kind = "relu"
[[model.layers]]
kind = "dense"
units = 3
[train]
batch = 8
[pipeline]
stages = 1
micro_batches = 6
group = 4
)",
                     steps, wait_for, split);
}

}  // namespace

TEST_CASE("a group learns images in strips, and shares them again when a member is killed",
          "[process]") {
  for (const std::string split : {"rows", "model"}) {
    Swarm swarm(4, images(100000000, 4, split));
    swarm.start_all();
    REQUIRE(swarm.reach({0, 1, 2, 3}, 20));
    swarm.kill(2);
    REQUIRE(swarm.go_on({0, 1, 3}));
    const auto groups = swarm.status(0)["pipeline"]["groups"][0];
    REQUIRE(groups.size() == 1);
    CHECK(std::ranges::count(groups[0].get<std::string>(), '+') == 2);
    none_refused(swarm, {0, 1, 3});
  }
  TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "images.toml";
  std::ofstream(file) << images(40, 1, "rows");
  for (const std::string peers : {"1", "3"}) {
    std::string output;
    const std::string run = (folder.path() / peers).string();
    CHECK(
        run_grapevine({"launch", "-n", peers, file.string(), "--folder", run}, output).exit_code ==
        0);
    INFO(output);
    std::string judged;
    CHECK(run_grapevine({"eval", run + "/mean.safetensors"}, judged).exit_code == 0);
    CHECK(std::stod(judged.substr(judged.find("accuracy ") + 9)) > 90);
  }
}

TEST_CASE("a pipeline with plans tells what it predicts and goes on when one is killed",
          "[process]") {
  Swarm swarm(4, pipeline(100000000, 4, "plan = \"auto\"\nrouter = \"throughput\"\n"));
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1, 2, 3}, 50));
  // There is no prediction before a ballot has collected speeds.
  REQUIRE(eventually(
      [&] {
        const nlohmann::json own = swarm.status(0)["pipeline"];
        return own.is_object() && own.value("predicted_s", 0.0) > 0 &&
               own.value("measured_s", 0.0) > 0;
      },
      120s));
  CHECK(swarm.status(0)["pipeline"]["plan"] == "auto");
  CHECK(carried(swarm, {0, 1, 2, 3}) == std::set<std::size_t>{0, 1, 2, 3});
  swarm.kill(1);
  REQUIRE(swarm.go_on({0, 2, 3}));
  CHECK(carried(swarm, {0, 2, 3}) == std::set<std::size_t>{0, 1, 2, 3});
  none_refused(swarm, {0, 2, 3});
}

TEST_CASE("a stage too large for a peer trains in a group that is large enough", "[process]") {
  const auto config = [](const std::string& memory_mb) {
    std::string text = pipeline(100000000, 1, "group = 3\nmemory_mb = " + memory_mb + "\n");
    const std::string hidden = "hidden = [64, 48, 32]";
    return text.replace(text.find(hidden), hidden.size(), "hidden = [512, 512]");
  };
  // If the memory is too small, the message says how much each of three members needs.
  TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "small.toml";
  std::ofstream(file) << config("0.001");
  std::string refused;
  CHECK(run_grapevine({"launch", "-n", "3", file.string(), "--folder", folder.path().string()},
                      refused)
            .exit_code == 2);
  INFO(refused);
  const std::string before = "one needs ";
  REQUIRE_THAT(refused, Catch::Contains(before) && Catch::Contains("each of 3 peers"));
  const double enough = std::stod(refused.substr(refused.find(before) + before.size()));
  Swarm swarm(3, config(fmt::format("{}", 1.05 * enough)));
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1, 2}, 50));
  swarm.kill(1);
  REQUIRE(eventually(
      [&] {
        return !swarm.events(0, "stage_lost").empty() || !swarm.events(2, "stage_lost").empty();
      },
      30s));
  swarm.start(1);
  REQUIRE(swarm.go_on({0, 1, 2}));
  none_refused(swarm, {0, 2});
}

TEST_CASE("replicas of a stage that mix by a rule go on when one of them is killed", "[process]") {
  Swarm swarm(6, pipeline(100000000, 2,
                          "consensus = \"mixing\"\n[mixing]\ntopology = \"complete\"\n"
                          "codec = \"fp16\"\nguard = \"self_centred_clip\"\n"));
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1, 2, 3, 4, 5}, 50));
  swarm.kill(2);
  REQUIRE(swarm.go_on({0, 1, 3, 4, 5}));
  CHECK(carried(swarm, {0, 1, 3, 4, 5}) == std::set<std::size_t>{0, 1});
  none_refused(swarm, {0, 1, 3, 4, 5});
  swarm.start(2);
  REQUIRE(swarm.go_on({0, 1, 2, 3, 4, 5}));
}

TEST_CASE("a stage whose only carrier is killed comes back from its neighbour's copy",
          "[process]") {
  const std::size_t victim = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{2});
  Swarm swarm(3, pipeline(100000000, 3));
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1, 2}, 50));
  swarm.kill(victim);
  std::vector<std::size_t> others = {0, 1, 2};
  std::erase(others, victim);
  REQUIRE(swarm.go_on(others));
  CHECK(carried(swarm, others) == std::set<std::size_t>{0, 1, 2});
  for (const std::size_t number : others) {
    CHECK(swarm.events(number, "stage_lost").empty());
    for (const auto& event : swarm.events(number, "rolled_back")) {
      CHECK(event["from"].get<double>() - event["to"].get<double>() <= 21);
    }
  }
  none_refused(swarm, others);
  // The peer returns like any newcomer, and takes over a stage from a peer that has two.
  swarm.start(victim);
  REQUIRE(swarm.go_on({0, 1, 2}));
  CHECK(eventually([&] { return carried(swarm, {victim}).size() == 1; }, 20s));
}

TEST_CASE("one of a pipeline that is told to leave hands its stage over and nothing goes back",
          "[process]") {
  const std::size_t leaver = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{2});
  Swarm swarm(3, pipeline(100000000, 3));
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1, 2}, 50));
  swarm.signal(leaver, SIGINT);
  const Ending ending = swarm.wait_for_end(leaver, 10s);
  INFO(swarm.output(leaver));
  CHECK(ending.exit_code == 0);
  std::vector<std::size_t> others = {0, 1, 2};
  std::erase(others, leaver);
  REQUIRE(swarm.go_on(others));
  CHECK(carried(swarm, others) == std::set<std::size_t>{0, 1, 2});
  for (const std::size_t number : others) CHECK(swarm.events(number, "rolled_back").empty());
  none_refused(swarm, others);
}

TEST_CASE("one of a pipeline that stands still is left out and takes part again when it wakes",
          "[process]") {
  Swarm swarm(3, pipeline(100000000, 2));
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1, 2}, 50));
  swarm.signal(1, SIGSTOP);
  REQUIRE(swarm.go_on({0, 2}));
  swarm.signal(1, SIGCONT);
  REQUIRE(swarm.go_on({0, 1, 2}));
  none_refused(swarm, {0, 1, 2});
}

TEST_CASE("a pipeline that was stopped as a whole goes on from its checkpoints", "[process]") {
  Swarm swarm(2, pipeline(100000000, 2, "", 25));
  swarm.start_all();
  REQUIRE(swarm.reach({0, 1}, 100));
  swarm.signal(0, SIGKILL);
  swarm.signal(1, SIGKILL);
  swarm.kill(0);
  swarm.kill(1);
  swarm.start(0, {.extra = {"--resume"}});
  swarm.start(1, {.extra = {"--resume"}});
  REQUIRE(swarm.reach({0, 1}, 150));
  for (const std::size_t number : {0, 1}) {
    const auto resumed = swarm.events(number, "resumed");
    REQUIRE(resumed.size() == 1);
    CHECK(resumed.front()["step"].get<double>() >= 75);
  }
  none_refused(swarm, {0, 1});
}

// A watched peer ends itself exactly at the point that docs/faults.md names. The return of a killed
// peer begins new generations.
TEST_CASE("a death at any point of a run leaves the others with every stage and one result",
          "[process]") {
  WatchedSwarm swarm(5, pipeline(100000000, 3));
  for (const std::string& point : pipeline_points) {
    for (const char* when : {"before", "after"}) {
      INFO(point << ", " << when);
      const bool is_of_generation = point == "p1";
      if (is_of_generation) {
        swarm.kill(swarm.next_victim());
        REQUIRE(swarm.works_again(60s));
      }
      swarm.put_point(point, when, SIGKILL, is_of_generation ? 0 : 3);
      if (is_of_generation) swarm.bring_all_back();
      REQUIRE(eventually([&] { return swarm.reached() && swarm.are_working(4); }, 30s));
      REQUIRE(swarm.works_again(60s));
      swarm.bring_all_back();
      REQUIRE(swarm.works_again(60s));
    }
  }
  CHECK(swarm.sums_differ() == "");
  CHECK(swarm.operations() > 100);
  CHECK(swarm.is_unheard_of("sum_refused"));
  CHECK(swarm.is_unheard_of("stage_lost"));
}

}  // namespace gv
