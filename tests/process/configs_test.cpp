// Configs of the project that no data set is needed for, shortened and launched as real processes.
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/process/swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// Replaces words of a text that must be there.
void replace(std::string& text, const std::string& words, const std::string& by) {
  const std::size_t at = text.find(words);
  INFO(words);
  REQUIRE(at != std::string::npos);
  text.replace(at, words.size(), by);
}

/// The summary of two peers that are launched with the config of this name, after these changes.
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

TEST_CASE("a support vector machine learns as its config promises", "[process]") {
  const auto summary = launched("svm.toml", {{"epochs = 10", "epochs = 2"}});
  // Ten classes; five times as many passes reach 92 %.
  CHECK(summary.value("mean_accuracy", 0.0) > 0.7);
  CHECK(summary.value("mean_loss", 9.0) < 1);
}

TEST_CASE("a k-means finds most centres as its config promises", "[process]") {
  const auto summary = launched("kmeans.toml", {{"epochs = 10", "epochs = 1"}});
  // The ten centres explain 0.59 of the scatter; where two of them share a group, about 0.55.
  CHECK(summary.value("mean_r2", 0.0) > 0.45);
}

TEST_CASE("a regression explains what its config promises", "[process]") {
  // One pass takes a quarter of a second, in which a peer that is kept waiting neither trains nor
  // exchanges anything. Ten passes leave it time to catch up.
  const auto summary = launched("regression.toml", {});
  // No model can have more than 0.8.
  CHECK(summary.value("mean_r2", 0.0) > 0.7);
  CHECK(summary.value("mean_r2", 1.0) < 0.82);
}

TEST_CASE("an autoencoder passes on a part of the scatter as its config promises", "[process]") {
  const auto summary = launched("autoencoder.toml", {{"epochs = 10", "epochs = 3"}});
  // The mean of the inputs would give 0, and ten passes reach 0.4.
  CHECK(summary.value("mean_r2", 0.0) > 0.15);
  CHECK(summary.value("mean_loss", 99.0) < 19);
}

TEST_CASE("ternary weights learn as their config promises", "[process]") {
  const auto summary = launched("ternary.toml", {{"epochs = 10", "epochs = 2"}});
  // Five times as many passes reach 93 %. Floats of this accuracy have about 75 % when their
  // weights are made ternary afterwards, and random weights 10 %.
  CHECK(summary.value("mean_accuracy", 0.0) > 0.8);
}

TEST_CASE("an LSTM begins to learn a text as its config promises", "[process]") {
  const auto summary = launched(
      "lstm.toml", {{"steps = 300", "steps = 60"},
                    {"folder = \"text\"",
                     "folder = \"" + std::string(GRAPEVINE_SOURCE_DIR) + "/configs/text\""}});
  // The logarithm of the perplexity: 256 bytes are 5.5, and their frequencies alone 2.9.
  CHECK(summary.value("mean_loss", 9.0) < 3.6);
}

}  // namespace gv
