// Checkpoints are restored as they were written, or refused with a reason.
#include "train/checkpoint/checkpoint.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tests/temporary_folder.hpp"
#include "train/checkpoint/safetensors.hpp"

namespace {

constexpr int syncs_of_a_save = 4;  ///< The fsync calls of a save that succeeds.
int syncs = 0;                      ///< Number of fsync calls so far.
int failing_sync = 0;               ///< The fsync call that fails, counted from 1; 0 means none.

}  // namespace

/// Replaces the C library's fsync in this program, to simulate a disk whose errors appear when it
/// syncs.
extern "C" int fsync(int descriptor) {
  if (++syncs != failing_sync) return static_cast<int>(::syscall(SYS_fsync, descriptor));
  errno = EIO;
  return -1;
}

namespace gv {
namespace {

namespace fs = std::filesystem;

struct Folder : TemporaryFolder {
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path())) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
};

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

Layout small_layout() {
  Layout layout;
  layout.add("dense1.weight", {2, 3});
  layout.add("dense1.bias", {2});
  return layout;
}

/// Saves eight parameters, each with the value `step`.
std::string save(const fs::path& folder, std::uint64_t step, std::size_t keep) {
  const std::vector<float> parameters(8, static_cast<float>(step));
  OptimizerState state;
  state.vectors = {{"momentum", std::vector<float>(8, -static_cast<float>(step))}};
  state.step = step;
  state.updates = step / 2;
  return save_checkpoint(folder, small_layout(), parameters, state, {{"note", "x"}}, keep);
}

void cut_in_half(const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); }

}  // namespace

TEST_CASE("a layout places tensors without gaps and its hash sees names shapes and order",
          "[unit]") {
  const Layout layout = small_layout();
  CHECK(layout.size() == 8);
  CHECK(layout.slots()[1] == TensorSlot{"dense1.bias", {2}, 6, 2});
  CHECK(layout.hash() == small_layout().hash());

  Layout renamed, reshaped, reordered, longer = layout;
  renamed.add("dense2.weight", {2, 3});
  renamed.add("dense1.bias", {2});
  reshaped.add("dense1.weight", {3, 2});
  reshaped.add("dense1.bias", {2});
  reordered.add("dense1.bias", {2});
  reordered.add("dense1.weight", {2, 3});
  longer.add("scale", {});
  CHECK(longer.size() == 9);
  for (const Layout* other : {&renamed, &reshaped, &reordered, &longer}) {
    CHECK(other->hash() != layout.hash());
  }
}

TEST_CASE("what cannot be written or read is said and leaves nothing behind", "[unit]") {
  const Folder folder;
  // Not even root can make a folder below a regular file.
  write(folder.path() / "file", "x");
  const fs::path below = folder.path() / "file" / "sub";
  CHECK_THAT(save(below, 1, 3),
             Catch::Contains("cannot be created") && Catch::Contains("Not a directory"));
  CHECK_THAT(write_safetensors(below / "a.safetensors", {}, {}),
             Catch::Contains("Not a directory"));
  CHECK_THAT(read_safetensors(folder.path() / "none").problem, Catch::Contains("No such file"));
  CHECK(read_safetensors(folder.path()).problem != "");
  // Renaming a file onto a folder fails at the last moment.
  fs::create_directory(folder.path() / "taken");
  CHECK_THAT(write_safetensors(folder.path() / "taken", {}, {}),
             Catch::Contains("cannot be renamed"));
  // JSON cannot hold metadata that is not UTF-8.
  CHECK(write_safetensors(folder.path() / "b", {}, {{"k", "\xff"}}) != "");
  CHECK(folder.names() == std::vector<std::string>{"file", "taken"});
}

TEST_CASE("a sync that fails fails the save and is not tried again", "[unit]") {
  // Each of the two files is synced, and then the folder after each gets its name. A file that may
  // not be on the disk gets no name, and the previous checkpoint is the one to be loaded.
  for (int failing = 1; failing <= syncs_of_a_save; ++failing) {
    const Folder folder;
    REQUIRE(save(folder.path(), 1, 3) == "");
    const auto before = folder.names();
    syncs = 0;
    failing_sync = failing;
    const std::string problem = save(folder.path(), 2, 3);
    failing_sync = 0;
    INFO("sync " << failing << ": " << problem);
    CHECK_THAT(problem, Catch::Contains("cannot be synced to disk: Input/output error"));
    CHECK(syncs == failing);
    const LoadedCheckpoint loaded = load_newest_checkpoint(folder.path(), small_layout());
    REQUIRE(loaded.checkpoint);
    if (failing < syncs_of_a_save) CHECK(loaded.checkpoint->optimizer.step == 1);
    CHECK(read(folder.path() / "step-0000000001.safetensors") != "");
    if (failing <= 2) CHECK(folder.names() == before);
    for (const std::string& name : folder.names()) CHECK_THAT(name, !Catch::EndsWith(".tmp"));
  }
}

TEST_CASE("a second save at a step that is cut short leaves one of the two checkpoints whole",
          "[unit]") {
  const auto save_value = [](const Folder& folder, float value) {
    const std::vector<float> parameters(8, value);
    const OptimizerState state{.vectors = {{"momentum", std::vector<float>(8, -value)}}, .step = 1};
    return save_checkpoint(folder.path(), small_layout(), parameters, state, {}, 1);
  };
  const auto has_value = [](const Folder& folder, float value) {
    const LoadedCheckpoint loaded = load_newest_checkpoint(folder.path(), small_layout());
    REQUIRE(loaded.checkpoint);
    CHECK(loaded.refused.empty());
    CHECK(loaded.checkpoint->parameters == std::vector<float>(8, value));
    CHECK(loaded.checkpoint->optimizer.vectors.front().second == std::vector<float>(8, -value));
  };
  for (int failing = 1; failing <= syncs_of_a_save; ++failing) {
    INFO("sync " << failing);
    const Folder folder;
    REQUIRE(save_value(folder, 1) == "");
    const auto names = folder.names();
    syncs = 0;
    failing_sync = failing;
    CHECK(save_value(folder, 2) != "");
    failing_sync = 0;
    // The third sync lies between the two files' new names. After the last both have them.
    has_value(folder, failing < syncs_of_a_save ? 1 : 2);
    REQUIRE(save_value(folder, 3) == "");
    has_value(folder, 3);
    CHECK(folder.names() == names);
  }
  // A crash just before the first file gets its new name.
  const Folder folder;
  REQUIRE(save_value(folder, 1) == "");
  const fs::path optimizer = folder.path() / "step-0000000001.optimizer.safetensors";
  fs::rename(optimizer, optimizer.string() + ".old");
  has_value(folder, 1);
}

TEST_CASE("a checkpoint comes back whole", "[unit]") {
  const Folder folder;
  REQUIRE(save(folder.path() / "new" / "folder", 42, 3) == "");
  const LoadedCheckpoint loaded =
      load_newest_checkpoint(folder.path() / "new" / "folder", small_layout());
  REQUIRE(loaded.checkpoint);
  CHECK(loaded.refused.empty());
  CHECK(loaded.file.filename() == "step-0000000042.safetensors");
  CHECK(loaded.checkpoint->parameters == std::vector<float>(8, 42));
  const OptimizerState& state = loaded.checkpoint->optimizer;
  CHECK(state.step == 42);
  CHECK(state.updates == 21);
  REQUIRE(state.vectors.size() == 1);
  CHECK(state.vectors[0].first == "momentum");
  CHECK(state.vectors[0].second == std::vector<float>(8, -42));
  CHECK(loaded.checkpoint->metadata.at("note") == "x");
  CHECK(loaded.checkpoint->metadata.at("step") == "42");

  const LoadedParameters alone = load_parameters(loaded.file, small_layout());
  CHECK(alone.problem == "");
  CHECK(alone.parameters == loaded.checkpoint->parameters);
  CHECK(alone.metadata == loaded.checkpoint->metadata);
}

TEST_CASE("a checkpoint keeps the sampler's position and those without one still load", "[unit]") {
  const Folder folder;
  const std::vector<float> parameters(8, 1);
  for (const std::optional<std::uint64_t> position :
       {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(~0ull)}) {
    const OptimizerState state{.vectors = {}, .step = 7, .updates = 7, .position = position};
    REQUIRE(save_checkpoint(folder.path(), small_layout(), parameters, state, {}, 3) == "");
    const LoadedCheckpoint loaded = load_newest_checkpoint(folder.path(), small_layout());
    REQUIRE(loaded.checkpoint);
    CHECK(loaded.checkpoint->optimizer.position == position);
  }
}

TEST_CASE("an empty or missing folder holds no checkpoint", "[unit]") {
  const Folder folder;
  for (const fs::path& path : {folder.path(), folder.path() / "missing"}) {
    const LoadedCheckpoint loaded = load_newest_checkpoint(path, small_layout());
    CHECK_FALSE(loaded.checkpoint);
    CHECK(loaded.refused.empty());
  }
}

TEST_CASE("the newest three checkpoints are kept and leftovers removed", "[unit]") {
  const Folder folder;
  write(folder.path() / "step-0000000001.safetensors.4711.tmp", "half");
  for (const std::uint64_t step : {9, 10, 99, 100, 1000})
    REQUIRE(save(folder.path(), step, 3) == "");
  CHECK(folder.names() ==
        std::vector<std::string>{
            "step-0000000099.optimizer.safetensors", "step-0000000099.safetensors",
            "step-0000000100.optimizer.safetensors", "step-0000000100.safetensors",
            "step-0000001000.optimizer.safetensors", "step-0000001000.safetensors"});
  CHECK(load_newest_checkpoint(folder.path(), small_layout()).checkpoint->optimizer.step == 1000);
}

TEST_CASE("a model that is not finite takes the place of no checkpoint", "[unit]") {
  const Folder folder;
  Layout layout;
  layout.add("w", {2});
  const std::vector<float> sound = {1, 2};
  REQUIRE(save_checkpoint(folder.path(), layout, sound, {.step = 1}, {}, 1).empty());
  const std::vector<float> diverged = {1, std::numeric_limits<float>::quiet_NaN()};
  CHECK_THAT(save_checkpoint(folder.path(), layout, diverged, {.step = 2}, {}, 1),
             Catch::Contains("the model is not finite, so earlier checkpoints are kept"));
  const OptimizerState state{.vectors = {{"momentum", {0, std::numeric_limits<float>::infinity()}}},
                             .step = 3};
  CHECK_FALSE(save_checkpoint(folder.path(), layout, sound, state, {}, 1).empty());
  const auto loaded = load_newest_checkpoint(folder.path(), layout);
  REQUIRE(loaded.checkpoint);
  CHECK(loaded.checkpoint->optimizer.step == 1);
}

TEST_CASE("checkpoints are ordered by the number of their step however many digits it has",
          "[unit]") {
  const Folder folder;
  const std::vector<std::uint64_t> steps = {9'999'999'998, 9'999'999'999, 10'000'000'000,
                                            123'456'789'012};
  for (const std::uint64_t step : steps) REQUIRE(save(folder.path(), step, 2) == "");
  CHECK(folder.names() == std::vector<std::string>{"step-10000000000.optimizer.safetensors",
                                                   "step-10000000000.safetensors",
                                                   "step-123456789012.optimizer.safetensors",
                                                   "step-123456789012.safetensors"});
  CHECK(load_newest_checkpoint(folder.path(), small_layout()).checkpoint->optimizer.step ==
        123'456'789'012);
  const Folder all;
  for (const std::uint64_t step : steps) REQUIRE(save(all.path(), step, 9) == "");
  const std::vector<fs::path> files = parameter_files(all.path());
  REQUIRE(files.size() == 4);
  CHECK(files.back().filename() == "step-9999999998.safetensors");
}

TEST_CASE("a leftover of a crash is not loaded", "[unit]") {
  const Folder folder;
  REQUIRE(save(folder.path(), 1, 3) == "");
  write(folder.path() / "step-0000000002.safetensors.4711.tmp", "half");
  // This file is written first. Without the other file of its checkpoint it does not count.
  fs::copy_file(folder.path() / "step-0000000001.optimizer.safetensors",
                folder.path() / "step-0000000002.optimizer.safetensors");
  const LoadedCheckpoint loaded = load_newest_checkpoint(folder.path(), small_layout());
  REQUIRE(loaded.checkpoint);
  CHECK(loaded.checkpoint->optimizer.step == 1);
  CHECK(loaded.refused.empty());
}

TEST_CASE("a torn or altered or incomplete checkpoint gives way to the one before", "[unit]") {
  const Folder folder;
  for (const std::uint64_t step : {1, 2, 3, 4, 5}) REQUIRE(save(folder.path(), step, 9) == "");
  const auto file = [&](int step, const std::string& end) {
    return folder.path() / ("step-000000000" + std::to_string(step) + end);
  };
  cut_in_half(file(5, ".safetensors"));
  cut_in_half(file(4, ".optimizer.safetensors"));
  fs::remove(file(3, ".optimizer.safetensors"));
  // This file is valid in itself, but it is from another save.
  fs::copy_file(file(1, ".optimizer.safetensors"), file(2, ".optimizer.safetensors"),
                fs::copy_options::overwrite_existing);
  const LoadedCheckpoint loaded = load_newest_checkpoint(folder.path(), small_layout());
  REQUIRE(loaded.checkpoint);
  CHECK(loaded.checkpoint->optimizer.step == 1);
  CHECK(loaded.checkpoint->parameters == std::vector<float>(8, 1));
  REQUIRE(loaded.refused.size() == 4);
  for (int i = 0; i < 4; ++i) {
    CHECK(loaded.refused[static_cast<std::size_t>(i)].first == file(5 - i, ".safetensors"));
    CHECK(loaded.refused[static_cast<std::size_t>(i)].second != "");
  }
  CHECK_THAT(loaded.refused[1].second, Catch::StartsWith("its optimiser file"));
  CHECK_THAT(loaded.refused[3].second, Catch::Contains("another checkpoint"));
}

TEST_CASE("a checkpoint that is not taken over gives way to the one before", "[unit]") {
  const Folder folder;
  for (const std::uint64_t step : {1, 2, 3, 4}) REQUIRE(save(folder.path(), step, 9) == "");
  cut_in_half(folder.path() / "step-0000000004.safetensors");
  std::vector<std::uint64_t> offered;
  const LoadedCheckpoint loaded = load_newest_checkpoint(
      folder.path(), [](const auto&) { return small_layout(); },
      [&](Checkpoint& checkpoint) {
        offered.push_back(checkpoint.optimizer.step);
        return offered.size() == 1 ? std::string("of another optimiser") : std::string();
      });
  CHECK(offered == std::vector<std::uint64_t>{3, 2});
  REQUIRE(loaded.checkpoint);
  CHECK(loaded.checkpoint->optimizer.step == 2);
  CHECK(loaded.file.filename() == "step-0000000002.safetensors");
  REQUIRE(loaded.refused.size() == 2);
  CHECK(loaded.refused[1].first.filename() == "step-0000000003.safetensors");
  CHECK(loaded.refused[1].second == "of another optimiser");
}

TEST_CASE("a save deletes the checkpoints of later steps and never itself", "[unit]") {
  // A replica that saves an earlier step has gone back to it, and has abandoned the later ones. One
  // of them is damaged here.
  const Folder folder;
  for (const std::uint64_t step : {30, 40}) {
    REQUIRE(save(folder.path(), step, 2) == "");
  }
  cut_in_half(folder.path() / "step-0000000030.safetensors");
  for (const std::uint64_t step : {20, 25, 27}) {
    REQUIRE(save(folder.path(), step, 2) == "");
    const LoadedCheckpoint loaded = load_newest_checkpoint(folder.path(), small_layout());
    REQUIRE(loaded.checkpoint);
    CHECK(loaded.checkpoint->optimizer.step == step);
    CHECK(loaded.refused.empty());
  }
  CHECK(folder.names() == std::vector<std::string>{"step-0000000025.optimizer.safetensors",
                                                   "step-0000000025.safetensors",
                                                   "step-0000000027.optimizer.safetensors",
                                                   "step-0000000027.safetensors"});
}

TEST_CASE("a save that fails deletes no checkpoint of a later step", "[unit]") {
  const Folder folder;
  REQUIRE(save(folder.path(), 40, 2) == "");
  syncs = 0;
  failing_sync = 2;
  CHECK(save(folder.path(), 20, 2) != "");
  failing_sync = 0;
  const LoadedCheckpoint loaded = load_newest_checkpoint(folder.path(), small_layout());
  REQUIRE(loaded.checkpoint);
  CHECK(loaded.checkpoint->optimizer.step == 40);
}

TEST_CASE("a checkpoint of another model is refused", "[unit]") {
  const Folder folder;
  REQUIRE(save(folder.path(), 1, 3) == "");
  Layout fewer, renamed, reshaped, reordered;
  fewer.add("dense1.weight", {2, 3});
  renamed.add("dense1.weight", {2, 3});
  renamed.add("dense1.offset", {2});
  reshaped.add("dense1.weight", {3, 2});
  reshaped.add("dense1.bias", {2});
  for (const Layout* layout : {&fewer, &renamed, &reshaped}) {
    const LoadedCheckpoint loaded = load_newest_checkpoint(folder.path(), *layout);
    CHECK_FALSE(loaded.checkpoint);
    CHECK(loaded.refused.size() == 1);
  }
  // Tensors may have any order in the file, because only their names matter.
  reordered.add("dense1.bias", {2});
  reordered.add("dense1.weight", {2, 3});
  CHECK(load_newest_checkpoint(folder.path(), reordered).checkpoint);
}

}  // namespace gv
