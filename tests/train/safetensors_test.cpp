// Files in the safetensors format come back bit by bit, and damaged or hostile ones are refused.
#include "train/checkpoint/safetensors.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/temporary_folder.hpp"

namespace gv {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

TEST_CASE("tensors and metadata come back bit by bit", "[unit]") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "a.safetensors";
  const std::vector<float> values = {0.0f,
                                     -0.0f,
                                     1.0f / 3,
                                     std::numeric_limits<float>::denorm_min(),
                                     std::numeric_limits<float>::max(),
                                     std::numeric_limits<float>::lowest()};
  const std::map<std::string, std::string> metadata = {{"config", "a = \"b\"\n\t\xc3\xa9"},
                                                       {"empty", ""}};
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
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("a file has the bytes of the safetensors format", "[unit]") {
  const TemporaryFolder folder;
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
  const TemporaryFolder folder;
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
  const TemporaryFolder folder;
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
  const TemporaryFolder folder;
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
  const TemporaryFolder folder;
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
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "a.safetensors";
  const TensorView empty{.name = "a", .shape = {0}, .values = {}};
  const std::vector<TensorView> tensors(20'001, empty);
  CHECK_THAT(write_safetensors(file, tensors, {}), Catch::Contains("more than 20000 tensors"));
  CHECK_FALSE(fs::exists(file));
}

TEST_CASE("a hostile header is refused with a reason", "[unit]") {
  const TemporaryFolder folder;
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
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "a.safetensors";
  const std::string entry = R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  // The CRC-32 of four zero bytes is 2144df1c.
  write(file, foreign(R"({"__metadata__":{"crc32.data":"2144df1c"},)" + entry + "}", raw(0.0f)));
  CHECK(read_safetensors(file).problem != "");
  write(file, foreign(R"({"__metadata__":{"crc32.header":"00000000"},)" + entry + "}", raw(0.0f)));
  CHECK(read_safetensors(file).problem != "");
}

TEST_CASE("values that are not finite are refused", "[unit]") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "a.safetensors";
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    const std::vector<float> values = {1, bad};
    REQUIRE(write_safetensors(file, {{"w", {2}, values}}, {}) == "");
    CHECK_THAT(read_safetensors(file).problem, Catch::Contains("not finite"));
  }
}

}  // namespace gv
