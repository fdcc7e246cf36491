// The project's configs that need no data set, shortened and launched as real processes.
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "peer/config/task.hpp"
#include "sim/run_files.hpp"
#include "tests/process/swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// Replaces `words`, which must occur in the text.
void replace(std::string& text, const std::string& words, const std::string& by) {
  const std::size_t at = text.find(words);
  INFO(words);
  REQUIRE(at != std::string::npos);
  text.replace(at, words.size(), by);
}

/// Launches two peers with the named config after these changes. Returns the summary.
nlohmann::json launched(const std::string& name,
                        const std::vector<std::pair<std::string, std::string>>& changes) {
  const std::filesystem::path configs = std::string(GRAPEVINE_SOURCE_DIR) + "/configs";
  std::ifstream in(configs / name);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  for (const auto& [words, by] : changes) replace(text, words, by);
  const TemporaryFolder folder;
  const auto config = folder.path() / name;
  std::ofstream(config) << text;
  std::string output;
  const Ending ending = run_grapevine(
      {"launch", "-n", "2", config.string(), "--folder", (folder.path() / "run").string()}, output,
      300s);
  INFO(output);
  CHECK(ending.signal == 0);
  CHECK(ending.exit_code == 0);
  std::ifstream summary(folder.path() / "run" / "summary.json");
  return nlohmann::json::parse(summary, nullptr, false);
}

}  // namespace

TEST_CASE("a launch would refuse none of the configs that come with the program", "[process]") {
  int count = 0;
  const std::filesystem::path configs = std::string(GRAPEVINE_SOURCE_DIR) + "/configs";
  for (const auto& entry : std::filesystem::directory_iterator(configs)) {
    if (entry.path().extension() != ".toml") continue;
    const std::string path = entry.path().string();
    RunFiles files = read_run_files(path);
    if (files.problems.empty()) files.problems = switch_problems(files, path);
    if (files.problems.empty()) files.problems = problems_with_data(files.config);
    // Data packages may be missing, and one config begins with the result of another.
    std::erase_if(files.problems, [](const Problem& problem) {
      return problem.reason.starts_with("no such file") || problem.place == "data.centres";
    });
    INFO(path);
    for (const Problem& problem : files.problems) FAIL_CHECK(to_string(problem));
    ++count;
  }
  CHECK(count >= 20);
}

TEST_CASE("a support vector machine learns as its config promises", "[process]") {
  const auto summary = launched("svm.toml", {{"epochs = 10", "epochs = 2"}});
  // There are ten classes. Five times as many passes over the data would reach 92 %.
  CHECK(summary.value("mean_accuracy", 0.0) > 0.7);
  CHECK(summary.value("mean_loss", 9.0) < 1);
}

TEST_CASE("a k-means finds most centres as its config promises", "[process]") {
  const auto summary = launched("kmeans.toml", {{"epochs = 10", "epochs = 1"}});
  // The ten true centres explain 0.59 of the scatter, and about 0.55 if two clusters share a
  // centre.
  CHECK(summary.value("mean_r2", 0.0) > 0.45);
}

TEST_CASE("a regression explains what its config promises", "[process]") {
  // A pass takes a quarter of a second. A peer that has to wait that long neither trains nor
  // exchanges anything, but ten passes give it time to catch up.
  const auto summary = launched("regression.toml", {});
  // No model can explain more than 0.8.
  CHECK(summary.value("mean_r2", 0.0) > 0.7);
  CHECK(summary.value("mean_r2", 1.0) < 0.82);
}

TEST_CASE("an autoencoder passes on a part of the scatter as its config promises", "[process]") {
  const auto summary = launched("autoencoder.toml", {{"epochs = 10", "epochs = 3"}});
  // Predicting the mean gives 0, and ten passes reach 0.4.
  CHECK(summary.value("mean_r2", 0.0) > 0.15);
  CHECK(summary.value("mean_loss", 99.0) < 19);
}

TEST_CASE("ternary weights learn as their config promises", "[process]") {
  const auto summary = launched("ternary.toml", {{"epochs = 10", "epochs = 2"}});
  // Five times as many passes would reach 93 %. A float model of that accuracy drops to about 75 %
  // if its weights are made ternary afterwards. Random weights reach 10 %.
  CHECK(summary.value("mean_accuracy", 0.0) > 0.8);
}

TEST_CASE("an LSTM begins to learn a text as its config promises", "[process]") {
  const auto summary = launched(
      "lstm.toml", {{"steps = 300", "steps = 60"},
                    {"folder = \"text\"",
                     "folder = \"" + std::string(GRAPEVINE_SOURCE_DIR) + "/configs/text\""}});
  // The loss is the logarithm of the perplexity: 5.5 if all bytes were equally likely, and 2.9 if
  // only their frequencies were known.
  CHECK(summary.value("mean_loss", 9.0) < 3.6);
}

}  // namespace gv
