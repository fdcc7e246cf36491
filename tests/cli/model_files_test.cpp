// Commands that read and write model files: which files they refuse, and which they read instead.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/routing.hpp"
#include "cli/simulate.hpp"
#include "peer/config/task.hpp"
#include "peer/host/run_format.hpp"
#include "peer/node/whole_replica.hpp"
#include "sim/local/summary.hpp"
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
  // If no file is readable, the newest is returned.
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
  // Rounding to ternary weights would ruin a model that was trained with floats.
  for (const auto& [weights, code] : {std::pair{"float", 2}, std::pair{"ternary", 0}}) {
    const std::string config = std::string("[model]\nweights = \"") + weights + "\"\n";
    REQUIRE(
        write_safetensors(from, {{"dense1.weight", {2, 2}, matrix}}, {{"config", config}}).empty());
    CHECK(exit_code_of(add_export, words + " --ternary") == code);
  }
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

/// A config of two peers with training samples of three classes, and with these test samples.
struct ThreeClasses {
  explicit ThreeClasses(const char* test_samples) {
    std::ofstream(folder.path() / "train.csv") << "1,0\n2,1\n3,2\n4,0\n5,1\n6,2\n";
    std::ofstream(folder.path() / "test.csv") << test_samples;
    std::ofstream(config()) << text;
    save_step(peer / "checkpoints", sound(text), text, 1);
  }
  std::string config() const { return (folder.path() / "config.toml").string(); }

  const TemporaryFolder folder;
  const std::filesystem::path peer = folder.path() / "peer-0";
  const std::string text = "[run]\npeers = 2\nsteps = 3\n[data]\nkind = \"csv\"\nfolder = \"" +
                           folder.path().string() +
                           "\"\ntrain_files = [\"train.csv\"]\ntest_files = [\"test.csv\"]\n"
                           "[model]\nhidden = [4]\n[train]\nbatch = 2\n";
};

TEST_CASE("test data without the last label are no reason to refuse a model", "[unit]") {
  const ThreeClasses run("1,0\n2,1\n");
  const std::string model = (run.peer / "checkpoints" / "step-0000000001.safetensors").string();
  const std::string out = (run.folder.path() / "out.safetensors").string();
  CHECK(exit_code_of(add_eval, "eval " + run.peer.string()) == 0);
  CHECK(exit_code_of(add_merge, "merge " + run.peer.string() + " --out " + out) == 0);
  CHECK(exit_code_of(add_import,
                     "import " + model + " --config " + run.config() + " --out " + out) == 0);
  CHECK(simulate({.config = run.config(), .folder = run.folder.path() / "sim"}) == 0);
  const std::vector<PeerOutcome> outcomes = {
      {.name = "peer-0", .folder = run.peer, .ending = {}, .by_fault = {}}};
  CHECK(print_summary(sound(run.text), run.text, run.folder.path(), outcomes, std::nullopt, 1));
}

TEST_CASE("the last layer of a file says how many classes a model has", "[unit]") {
  const ThreeClasses run("1,0\n2,3\n");
  const Config config = sound(run.text);
  const std::vector<std::filesystem::path> files = checkpoints_of(run.peer);
  REQUIRE(files.size() == 1);
  CHECK(classes_in(config, files) == 3);
  std::vector<Tensor> tensors = read_safetensors(files.front()).tensors;
  for (Tensor& tensor : tensors) tensor.name = "another." + tensor.name;
  const auto is_last = [](const Tensor& tensor) { return tensor.name.ends_with("dense2.bias"); };
  std::ranges::stable_partition(tensors, [&](const Tensor& tensor) { return !is_last(tensor); });
  CHECK(classes_in(config, tensors) == 3);
  tensors.pop_back();
  CHECK(classes_in(config, tensors) == 0);
  // If a model does not predict labels, the size of its last layer is not a number of classes.
  Config other = config;
  other.model.kind = ModelKind::transformer;
  CHECK(classes_in(other, files) == 0);
  other.model.kind = ModelKind::linear;
  other.model.loss = LossKind::reconstruction;
  CHECK(classes_in(other, files) == 0);
  // A label beyond the model's classes is refused.
  const Problems problems = load_test_set(config, 3).problems;
  REQUIRE(problems.size() == 1);
  CHECK(
      to_string(problems.front()) ==
      "data.test_files: the test data have labels up to 3, and the model has 3 classes, beginning "
      "with 0; name test data with labels that the training data have, too");
  CHECK(exit_code_of(add_eval, "eval " + run.peer.string()) == 2);
}

TEST_CASE("an imported model that the training data do not fit begins no peer", "[unit]") {
  const ThreeClasses run("1,0\n2,1\n");
  const std::string file = (run.folder.path() / "four.safetensors").string();
  const std::vector<float> zeros(16, 0);
  const std::span<const float> all(zeros);
  REQUIRE(write_safetensors(file,
                            {{"dense1.weight", {4, 1}, all.first(4)},
                             {"dense1.bias", {4}, all.first(4)},
                             {"dense2.weight", {4, 4}, all},
                             {"dense2.bias", {4}, all.first(4)}},
                            {})
              .empty());
  const std::string out = (run.folder.path() / "out.safetensors").string();
  const std::string words = "import " + file + " --config " + run.config() + " --out " + out;
  CHECK(exit_code_of(add_import, words) == 0);
  CHECK(exit_code_of(add_import, words + " --start " + (run.folder.path() / "p").string()) == 2);
}

TEST_CASE("an import that could not write to the folder of one peer can be repeated", "[unit]") {
  const ThreeClasses run("1,0\n2,1\n3,2\n");
  const std::filesystem::path first = run.folder.path() / "first";
  const std::filesystem::path second = run.folder.path() / "second";
  const std::string words =
      "import " + (run.peer / "checkpoints" / "step-0000000001.safetensors").string() +
      " --config " + run.config() + " --out " + (run.folder.path() / "out.safetensors").string() +
      " --start " + first.string() + " " + second.string();
  // Not even root can write the mark of a format over a folder, or a checkpoint below a file.
  std::filesystem::create_directories(second / "format" / "below");
  CHECK(exit_code_of(add_import, words) == 2);
  CHECK(checkpoints_of(first).empty());
  CHECK_FALSE(std::filesystem::exists(second / "checkpoints"));
  std::filesystem::remove_all(second / "format");
  std::ofstream(second / "checkpoints") << "a file of the user's";
  CHECK(exit_code_of(add_import, words) == 2);
  CHECK(checkpoints_of(first).empty());
  CHECK(bytes_of_file((second / "checkpoints").string()) == "a file of the user's");
  std::filesystem::remove(second / "checkpoints");
  // An import that was killed may have left an empty folder.
  std::filesystem::create_directories(second / "checkpoints");
  REQUIRE(exit_code_of(add_import, words) == 0);
  for (const std::filesystem::path& peer : {first, second}) {
    CHECK(checkpoints_of(peer).size() == 1);
    CHECK(run_format_problems(peer).empty());
  }
  CHECK(exit_code_of(add_import, words) == 2);
  CHECK(checkpoints_of(first).size() == 1);
}

TEST_CASE("the summary names the peers that held parameters at their bound", "[unit]") {
  const ThreeClasses run("1,0\n2,2\n");
  std::vector<PeerOutcome> outcomes = {
      {.name = "peer-0", .folder = run.peer, .ending = {}, .by_fault = {}},
      {.name = "peer-1", .folder = run.folder.path() / "1", .ending = {}, .by_fault = {}}};
  const auto summary = [&] {
    CHECK(print_summary(sound(run.text), run.text, run.folder.path(), outcomes, std::nullopt, 1));
    return bytes_of_file((run.folder.path() / "summary.json").string());
  };
  CHECK(summary().find("\"held\"") == std::string::npos);
  // Lines that no peer writes are skipped.
  std::ofstream(run.peer / "events.jsonl")
      << "{\"event\":3}\n[1]\n{\"event\":\"x\",\"left_out\":\"y\"}\n"
      << "{\"t\":1,\"event\":\"model_held\",\"step\":2}\n";
  const std::string held = summary();
  CHECK(held.find("\"held\": [\n  \"peer-0\"\n ]") != std::string::npos);
}

}  // namespace gv
