// Commands that read and write model files: which files they refuse, and which they read instead.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/routing.hpp"
#include "peer/config/task.hpp"
#include "peer/node/whole_replica.hpp"
#include "tests/peer/config_texts.hpp"
#include "tests/peer/saved_step.hpp"
#include "tests/temporary_folder.hpp"
#include "train/checkpoint/safetensors.hpp"

namespace gv {
namespace {

/// The exit code of a command with these arguments; -1 if it ends without one.
int exit_code_of(void (*add)(CLI::App&), const std::string& words) {
  CLI::App app;
  add(app);
  try {
    app.parse(words);
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  }
  return -1;
}

std::string bytes_of_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("a model is not imported over the file that it is read from", "[unit]") {
  const TemporaryFolder folder;
  const auto named = [&](const char* name) { return (folder.path() / name).string(); };
  const std::vector<float> values = {1, 2};
  REQUIRE(write_safetensors(named("a.safetensors"), {{"a", {2}, values}}, {{"note", "x"}}).empty());
  const std::string before = bytes_of_file(named("a.safetensors"));
  std::filesystem::create_hard_link(named("a.safetensors"), named("same.safetensors"));
  const std::string words = "import " + named("a.safetensors") + " --out ";
  for (const char* same : {"a.safetensors", "./a.safetensors", "same.safetensors"}) {
    INFO(same);
    CHECK(exit_code_of(add_import, words + named(same)) == 2);
  }
  CHECK(bytes_of_file(named("a.safetensors")) == before);
  CHECK(exit_code_of(add_import, words + named("b.safetensors")) == 0);
  CHECK(std::filesystem::exists(named("b.safetensors")));
}

TEST_CASE("a torn newest checkpoint of a folder gives way to the one before", "[unit]") {
  const TemporaryFolder folder;
  const std::filesystem::path peer = folder.path() / "peer";
  const std::string text = "[run]\npeers = 1\n[data.generated]\nsamples = 64\ntest_samples = 32\n";
  save_step(peer / "checkpoints", sound(text), text, 1);
  save_step(peer / "checkpoints", sound(text), text, 2);
  const std::filesystem::path newest = peer / "checkpoints" / "step-0000000002.safetensors";
  const std::filesystem::path before = peer / "checkpoints" / "step-0000000001.safetensors";
  CHECK(model_file_at(peer.string()) == newest.string());
  std::filesystem::resize_file(newest, std::filesystem::file_size(newest) / 2);
  CHECK(model_file_at(peer.string()) == before.string());
  const std::string out = (folder.path() / "whole.safetensors").string();
  CHECK(exit_code_of(add_merge, "merge " + peer.string() + " --out " + out) == 0);
  CHECK(std::filesystem::exists(out));
  // If no file is readable, the newest is named.
  std::filesystem::resize_file(before, 10);
  CHECK(model_file_at(peer.string()) == newest.string());
}

TEST_CASE("matrices of a model are exported as ternary weights if asked for", "[unit]") {
  const TemporaryFolder folder;
  const std::string from = (folder.path() / "a.safetensors").string();
  const std::string to = (folder.path() / "b.safetensors").string();
  const std::vector<float> matrix = {1, -3, 0.5F, -0.5F};
  const std::vector<float> biases = {1, 0.25F};
  REQUIRE(write_safetensors(from, {{"dense1.weight", {2, 2}, matrix}, {"dense1.bias", {2}, biases}},
                            {{"note", "x"}})
              .empty());
  const auto written = [&](const std::string& name) {
    const std::vector<Tensor> tensors = read_safetensors(to).tensors;
    const auto found = std::ranges::find(tensors, name, &Tensor::name);
    return found == tensors.end() ? std::vector<float>() : found->values;
  };
  const std::string words = "export " + from + " --to " + to;
  REQUIRE(exit_code_of(add_export, words) == 0);
  CHECK(written("dense1.weight") == matrix);
  REQUIRE(exit_code_of(add_export, words + " --ternary") == 0);
  // The mean of the magnitudes is 1.25, so the threshold is 0.875.
  CHECK(written("dense1.weight") == std::vector<float>{2, -2, 0, 0});
  CHECK(written("dense1.bias") == biases);
  REQUIRE(write_safetensors(from, {{"dense1.bias", {2}, biases}}, {}).empty());
  CHECK(exit_code_of(add_export, words + " --ternary") == 2);
}

TEST_CASE("the sharpness of a model with ternary weights is refused", "[unit]") {
  const TemporaryFolder folder;
  const auto exit_code = [&](const std::string& weights, const std::string& option) {
    const std::string text =
        "[run]\npeers = 1\n[data.generated]\nsamples = 64\ntest_samples = 32\n[model]\n"
        "weights = \"" +
        weights + "\"\n";
    const std::filesystem::path checkpoints = folder.path() / weights / "checkpoints";
    save_step(checkpoints, sound(text), text, 1);
    return exit_code_of(add_eval, "eval " + (folder.path() / weights).string() + option);
  };
  CHECK(exit_code("ternary", "") == 0);
  CHECK(exit_code("ternary", " --sharpness") == 2);
  CHECK(exit_code("float", " --sharpness") == 0);
}

}  // namespace gv
