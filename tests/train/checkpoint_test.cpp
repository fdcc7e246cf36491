// Checkpoints are restored as they were written, or refused with a reason.
#include "train/checkpoint/checkpoint.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/temporary_folder.hpp"
#include "train/checkpoint/safetensors.hpp"

namespace {

int syncs = 0;         ///< Number of fsync calls so far.
int failing_sync = 0;  ///< The fsync call that fails, counted from 1; 0 means none.

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
using Metadata = std::map<std::string, std::string>;

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

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// A file as another program might write it, without checksums. `header` need not be valid.
std::string foreign(const std::string& header, const std::string& data) {
  return raw<std::uint64_t>(header.size()) + header + data;
}

std::string write_small(const fs::path& file) {
  const std::vector<float> a = {1, -2}, b = {0.5f};
  return write_safetensors(file, {{"a", {2, 1}, a}, {"b", {}, b}}, {{"k", "v"}});
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

TEST_CASE("tensors and metadata come back bit by bit", "[unit]") {
  const Folder folder;
  const fs::path file = folder.path() / "a.safetensors";
  const std::vector<float> values = {0.0f,
                                     -0.0f,
                                     1.0f / 3,
                                     std::numeric_limits<float>::denorm_min(),
                                     std::numeric_limits<float>::max(),
                                     std::numeric_limits<float>::lowest()};
  const Metadata metadata = {{"config", "a = \"b\"\n\t\xc3\xa9"}, {"empty", ""}};
  REQUIRE(write_safetensors(file, {{"z", {3, 2}, values}, {"none", {0, 4}, {}}}, metadata) == "");
  const LoadedTensors loaded = read_safetensors(file);
  REQUIRE(loaded.problem == "");
  CHECK(loaded.checksummed);
  CHECK(loaded.metadata == metadata);
  REQUIRE(loaded.tensors.size() == 2);
  CHECK(loaded.tensors[0].name == "z");
  CHECK(loaded.tensors[0].shape == std::vector<std::size_t>{3, 2});
  CHECK(std::memcmp(loaded.tensors[0].values.data(), values.data(), 6 * sizeof(float)) == 0);
  CHECK(loaded.tensors[1].shape == std::vector<std::size_t>{0, 4});
  CHECK(loaded.tensors[1].values.empty());
  CHECK(folder.names() == std::vector<std::string>{"a.safetensors"});
}

TEST_CASE("a file has the bytes of the safetensors format", "[unit]") {
  const Folder folder;
  const fs::path file = folder.path() / "a.safetensors";
  REQUIRE(write_small(file) == "");
  // 1.0, -2.0 and 0.5 in little-endian binary32, written by hand.
  const std::string data("\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x00\x3f", 12);
  // The checksums were computed by another CRC-32 implementation over these bytes, and over this
  // header without its own checksum and padding.
  std::string header =
      R"({"__metadata__":{"k":"v","crc32.data":"332b058b","crc32.header":"d9ac43f5"},)"
      R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"F32","shape":[],"data_offsets":[8,12]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  CHECK(read(file) == foreign(header, data));
}

TEST_CASE("a change of any byte is noticed", "[unit]") {
  const Folder folder;
  const fs::path file = folder.path() / "a.safetensors";
  REQUIRE(write_small(file) == "");
  const std::string whole = read(file);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int mask : {0x01, 0x20, 0x80, 0xff}) {
      std::string altered = whole;
      altered[i] = static_cast<char>(altered[i] ^ mask);
      write(file, altered);
      const LoadedTensors loaded = read_safetensors(file);
      INFO("byte " << i << " ('" << whole[i] << "') changed by " << mask);
      CHECK(loaded.problem != "");
      CHECK(loaded.tensors.empty());
    }
  }
}

TEST_CASE("a file cut off anywhere or continued is refused", "[unit]") {
  const Folder folder;
  const fs::path file = folder.path() / "a.safetensors";
  REQUIRE(write_small(file) == "");
  const std::string whole = read(file);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write(file, whole.substr(0, length));
    INFO("length " << length);
    CHECK(read_safetensors(file).problem != "");
  }
  write(file, whole + '\0');
  CHECK(read_safetensors(file).problem != "");
  write(file, whole);
  CHECK(read_safetensors(file).problem == "");
}

TEST_CASE("files of other programs are read without checksums", "[unit]") {
  const Folder folder;
  const fs::path file = folder.path() / "a.safetensors";
  const std::string entry = R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  for (const std::string& header : {"{" + entry + "}", "{" + entry + "}   ",
                                    R"({"__metadata__":{"format":"pt"},)" + entry + "}"}) {
    write(file, foreign(header, raw(2.5f)));
    const LoadedTensors loaded = read_safetensors(file);
    INFO(header);
    REQUIRE(loaded.problem == "");
    CHECK_FALSE(loaded.checksummed);
    CHECK(loaded.tensors[0].values == std::vector<float>{2.5f});
  }
  write(file, foreign("{}", ""));
  CHECK(read_safetensors(file).problem == "");
  // A header may be sorted by name while the data are in another order.
  write(file, foreign(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
                      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                      raw(1.5f) + raw(2.5f)));
  const LoadedTensors sorted = read_safetensors(file);
  REQUIRE(sorted.problem == "");
  REQUIRE(sorted.tensors.size() == 2);
  CHECK(sorted.tensors[0].name == "b");
  CHECK(sorted.tensors[0].values == std::vector<float>{1.5f});
  CHECK(sorted.tensors[1].values == std::vector<float>{2.5f});
}

TEST_CASE("numbers of other types become floats and those that cannot are refused", "[unit]") {
  const Folder folder;
  const fs::path file = folder.path() / "a.safetensors";
  const auto read_as = [&](const std::string& type, const std::string& data) {
    write(file, foreign(R"({"w":{"dtype":")" + type + R"(","shape":[1],"data_offsets":[0,)" +
                            std::to_string(data.size()) + "]}}",
                        data));
    return read_safetensors(file);
  };
  const auto value = [&](const std::string& type, const std::string& data) {
    const LoadedTensors loaded = read_as(type, data);
    INFO(type << " " << loaded.problem);
    REQUIRE(loaded.tensors.size() == 1);
    return loaded.tensors.front().values.front();
  };
  CHECK(value("F16", raw<std::uint16_t>(0x3e00)) == 1.5f);
  CHECK(value("BF16", raw<std::uint16_t>(0x3fc0)) == 1.5f);
  CHECK(value("F64", raw<double>(0.1)) == 0.1f);
  CHECK(value("I8", raw<std::int8_t>(-3)) == -3);
  CHECK(value("I16", raw<std::int16_t>(-300)) == -300);
  CHECK(value("I32", raw<std::int32_t>(1 << 20)) == 1 << 20);
  CHECK(value("I64", raw<std::int64_t>(-7)) == -7);
  CHECK(value("U8", raw<std::uint8_t>(200)) == 200);
  CHECK(value("BOOL", raw<std::uint8_t>(1)) == 1);
  CHECK(read_as("F16", raw<std::uint16_t>(1)).tensors.front().type == NumberType::f16);
  const std::string inexact = "tensor 'w' has whole numbers that a float32 cannot hold";
  CHECK(read_as("I64", raw<std::int64_t>((1 << 24) + 1)).problem == inexact);
  const std::string not_finite = "tensor 'w' holds values that are not finite";
  CHECK(read_as("F64", raw<double>(1e300)).problem == not_finite);
  CHECK(read_as("F16", raw<std::uint16_t>(0x7c00)).problem == not_finite);
}

TEST_CASE("more tensors than can be read again are not written", "[unit]") {
  const Folder folder;
  const fs::path file = folder.path() / "a.safetensors";
  const TensorView empty{.name = "a", .shape = {0}, .values = {}};
  const std::vector<TensorView> tensors(20'001, empty);
  CHECK_THAT(write_safetensors(file, tensors, {}), Catch::Contains("more than 20000 tensors"));
  CHECK_FALSE(fs::exists(file));
}

TEST_CASE("a hostile header is refused with a reason", "[unit]") {
  const Folder folder;
  const fs::path file = folder.path() / "a.safetensors";
  const auto problem = [&](const std::string& bytes) {
    write(file, bytes);
    return read_safetensors(file).problem;
  };
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
    return R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}}";
  };
  const std::string four(4, '\0');
  REQUIRE(problem(foreign(tensor("\"F32\"", "[1]", "[0,4]"), four)) == "");

  const std::vector<std::string> headers = {
      "",
      "[]",
      "null",
      "{",
      "{}",
      "{\"w\":1}",
      "\xff\xfe",
      "{\"w\":{}}",
      tensor("\"F8_E4M3\"", "[4]", "[0,4]"),
      tensor("\"F16\"", "[1]", "[0,4]"),
      tensor("1", "[1]", "[0,4]"),
      tensor("\"F32\"", "1", "[0,4]"),
      tensor("\"F32\"", "[-1]", "[0,4]"),
      tensor("\"F32\"", "[1.0]", "[0,4]"),
      tensor("\"F32\"", "[\"1\"]", "[0,4]"),
      tensor("\"F32\"", "[2]", "[0,4]"),
      tensor("\"F32\"", "[1]", "[0,8]"),
      tensor("\"F32\"", "[1]", "[4,0]"),
      tensor("\"F32\"", "[1]", "[-4,0]"),
      tensor("\"F32\"", "[1]", "[0]"),
      tensor("\"F32\"", "[1]", "[0,4,8]"),
      tensor("\"F32\"", "[1]", "4"),
      // The products of these shapes wrap around to one element in 64 bits.
      tensor("\"F32\"", "[4294967296,4294967296]", "[0,4]"),
      tensor("\"F32\"", "[4611686018427387905]", "[0,4]"),
      tensor("\"F32\"", "[18446744073709551617]", "[0,4]"),
      R"({"w":{"dtype":"F32","shape":[1]}})",
      R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":0}})",
      // Here two tensors share bytes, and a name occurs twice.
      R"({"v":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      R"({"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)"
      R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      R"({"__metadata__":{"a":1},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      R"({"__metadata__":7,"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      std::string(100000, '['),
  };
  for (const std::string& header : headers) {
    INFO(header.substr(0, 100));
    CHECK(problem(foreign(header, four)) != "");
  }
  // Names that a parser without a limit would compare for minutes.
  std::string names;
  for (int i = 0; i < 30'000; ++i) names += ",\"" + std::to_string(i) + "\":\"\"";
  const std::string table = "{" + names.substr(1) + "}";
  for (const std::string& header : {table, "{\"__metadata__\":" + table + "}"}) {
    CHECK_THAT(problem(foreign(header, "")), Catch::Contains("too many names"));
  }
  // Lengths that would make a naive reader allocate too much or wrap around.
  for (const std::uint64_t length : {1ull << 24, 1ull << 40, ~0ull, ~0ull - 7}) {
    CHECK(problem(raw<std::uint64_t>(length) + "{}") != "");
  }
}

TEST_CASE("one of the two checksums alone is refused", "[unit]") {
  // If one checksum were enough, damage to the name of a checksum would switch off its check.
  const Folder folder;
  const fs::path file = folder.path() / "a.safetensors";
  const std::string entry = R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  // The CRC-32 of four zero bytes is 2144df1c.
  write(file, foreign(R"({"__metadata__":{"crc32.data":"2144df1c"},)" + entry + "}", raw(0.0f)));
  CHECK(read_safetensors(file).problem != "");
  write(file, foreign(R"({"__metadata__":{"crc32.header":"00000000"},)" + entry + "}", raw(0.0f)));
  CHECK(read_safetensors(file).problem != "");
}

TEST_CASE("values that are not finite are refused", "[unit]") {
  const Folder folder;
  const fs::path file = folder.path() / "a.safetensors";
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    const std::vector<float> values = {1, bad};
    REQUIRE(write_safetensors(file, {{"w", {2}, values}}, {}) == "");
    CHECK_THAT(read_safetensors(file).problem, Catch::Contains("not finite"));
  }
}

TEST_CASE("what cannot be written or read is said and leaves nothing behind", "[unit]") {
  const Folder folder;
  // Not even root can make a folder below a regular file.
  write(folder.path() / "file", "x");
  const fs::path below = folder.path() / "file" / "sub";
  CHECK_THAT(save(below, 1, 3),
             Catch::Contains("cannot be created") && Catch::Contains("Not a directory"));
  CHECK_THAT(write_small(below / "a.safetensors"), Catch::Contains("Not a directory"));
  CHECK_THAT(read_safetensors(folder.path() / "none").problem, Catch::Contains("No such file"));
  CHECK(read_safetensors(folder.path()).problem != "");
  // Renaming a file onto a folder fails at the last moment.
  fs::create_directory(folder.path() / "taken");
  CHECK_THAT(write_small(folder.path() / "taken"), Catch::Contains("cannot be renamed"));
  // JSON cannot hold metadata that is not UTF-8.
  CHECK(write_safetensors(folder.path() / "b", {}, {{"k", "\xff"}}) != "");
  CHECK(folder.names() == std::vector<std::string>{"file", "taken"});
}

TEST_CASE("a sync that fails fails the save and is not tried again", "[unit]") {
  // Each of the two files is synced, and the folder after each. A file that may not be on the disk
  // does not get its final name, and the previous checkpoint is the one to be loaded.
  constexpr int syncs_of_a_save = 4;
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
    if (failing == 1) CHECK(folder.names() == before);
    for (const std::string& name : folder.names()) CHECK_THAT(name, !Catch::EndsWith(".tmp"));
  }
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
  REQUIRE(save(folder.path(), 9'999'999'999, 9) == "");
  const std::vector<fs::path> files = parameter_files(folder.path());
  REQUIRE(files.size() == 3);
  CHECK(files.back().filename() == "step-9999999999.safetensors");
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

TEST_CASE("a save never deletes itself in favour of checkpoints of later steps", "[unit]") {
  // A torn checkpoint, or one from another run, may have a higher step than a run that starts over.
  const Folder folder;
  for (const std::uint64_t step : {30, 40}) {
    REQUIRE(save(folder.path(), step, 2) == "");
  }
  cut_in_half(folder.path() / "step-0000000030.safetensors");
  cut_in_half(folder.path() / "step-0000000040.safetensors");
  for (const std::uint64_t step : {10, 20, 25}) {
    REQUIRE(save(folder.path(), step, 2) == "");
    const LoadedCheckpoint loaded = load_newest_checkpoint(folder.path(), small_layout());
    REQUIRE(loaded.checkpoint);
    CHECK(loaded.checkpoint->optimizer.step == step);
    CHECK(loaded.refused.size() == 2);
  }
  CHECK(fs::exists(folder.path() / "step-0000000020.safetensors"));
  CHECK_FALSE(fs::exists(folder.path() / "step-0000000010.safetensors"));
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
