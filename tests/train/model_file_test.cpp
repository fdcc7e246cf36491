// Models survive a round trip through files of other programs, and hostile files are refused.
#include "train/formats/model_file.hpp"

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/temporary_folder.hpp"
#include "train/formats/archive.hpp"
#include "train/formats/layout_fit.hpp"
#include "train/formats/numpy_file.hpp"
#include "train/formats/state_dict.hpp"
#include "train/formats/torch_file.hpp"

namespace gv {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string little(std::uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i));
  return text;
}

/// An entry as a zip archive describes it. Its bytes are stored, even if its method claims that
/// they are deflated.
struct Claim {
  std::string name;
  std::string bytes;
  std::uint32_t crc = 0;
  std::uint32_t size = 0;
  std::uint16_t method = 0;
  std::uint16_t flags = 0;
  std::uint32_t offset = 0;  ///< Filled in by archive_of().
};

/// The fields that the two headers of an entry have in common.
std::string common(const Claim& entry) {
  return little(20, 2) + little(entry.flags, 2) + little(entry.method, 2) + little(0, 4) +
         little(entry.crc, 4) + little(entry.bytes.size(), 4) + little(entry.size, 4) +
         little(entry.name.size(), 2) + little(0, 2);
}

/// A zip archive made by hand. With `overlap`, all entries lie at the place of the first.
std::string archive_of(std::vector<Claim> entries, bool overlap = false) {
  std::string file;
  for (Claim& entry : entries) {
    if (overlap && &entry != &entries.front()) {
      entry.offset = 0;
      continue;
    }
    entry.offset = static_cast<std::uint32_t>(file.size());
    file += "PK\3\4" + common(entry) + entry.name + entry.bytes;
  }
  const std::size_t begin = file.size();
  for (const Claim& entry : entries) {
    file += "PK\1\2" + little(20, 2) + common(entry) + little(0, 2) + little(0, 2) + little(0, 2) +
            little(0, 4) + little(entry.offset, 4) + entry.name;
  }
  const std::size_t length = file.size() - begin;
  return file + "PK\5\6" + little(0, 4) + little(entries.size(), 2) + little(entries.size(), 2) +
         little(length, 4) + little(begin, 4) + little(0, 2);
}

std::string problem_of_archive(const std::string& bytes) {
  const TemporaryFolder folder;
  write(folder.path() / "a.zip", bytes);
  return Archive(folder.path() / "a.zip").problem();
}

const std::vector<float> numbers = {1.5F, -2, 0.25F, 3, -0.0F, 65504, 6.103515625e-05F};

std::vector<TensorView> some_tensors() {
  return {{"layer.weight", {2, 3}, std::span(numbers).first(6)},
          {"layer.bias", {1}, std::span(numbers).last(1)},
          {"scale", {}, std::span(numbers).first(1)},
          {"none", {0, 4}, {}}};
}

/// The content of a .npy file with this header and these data.
std::string npy(const std::string& header, const std::string& data) {
  return "\x93NUMPY\1\0"s + little(header.size(), 2) + header + data;
}

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

}  // namespace

TEST_CASE("a model comes back from every format and type", "[unit]") {
  const TemporaryFolder folder;
  const NumberType type = GENERATE(NumberType::f32, NumberType::f16, NumberType::bf16);
  const std::string ending = GENERATE("safetensors"s, "pt"s, "npz"s);
  if (type == NumberType::bf16 && ending == "npz") return;
  const fs::path file = folder.path() / ("model." + ending);
  const std::vector<TensorView> tensors = some_tensors();
  // All but one of the numbers are exact in bf16, too.
  const bool is_rounded = type == NumberType::bf16;
  REQUIRE(write_model_file(file, tensors, {{"step", "12"}}, type).empty());
  const ModelContents model = read_model_file(file);
  INFO(model.reason);
  REQUIRE(model.reason.empty());
  REQUIRE(model.tensors.size() == tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    CHECK(model.tensors[i].name == tensors[i].name);
    CHECK(model.tensors[i].shape == tensors[i].shape);
    CHECK(model.tensors[i].type == type);
    std::vector<float> expected(tensors[i].values.begin(), tensors[i].values.end());
    if (is_rounded && i == 0) expected[5] = 65536;
    REQUIRE(model.tensors[i].values == expected);
  }
  CHECK(std::signbit(model.tensors[0].values[4]));
  CHECK(model.metadata.contains("step") == (ending == "safetensors"));
  // Equal models make equal files, and nothing else is left in the folder.
  const std::string once = read(file);
  REQUIRE(write_model_file(file, tensors, {{"step", "12"}}, type).empty());
  CHECK(read(file) == once);
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a lone array comes back from a npy file under the name of the file", "[unit]") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "bias.npy";
  const std::vector<TensorView> one = {{"x", {2, 3}, std::span(numbers).first(6)}};
  REQUIRE(write_model_file(file, one, {}, NumberType::f16).empty());
  const ModelContents model = read_model_file(file);
  REQUIRE(model.tensors.size() == 1);
  CHECK(model.tensors[0].name == "bias");
  CHECK(model.tensors[0].shape == one[0].shape);
  CHECK(model.tensors[0].values == std::vector<float>(numbers.begin(), numbers.begin() + 6));
  CHECK(fs::file_size(file) % 64 == 12);
}

TEST_CASE("what a format cannot hold is refused before anything is written", "[unit]") {
  const TemporaryFolder folder;
  const auto reason = [&](const char* name, const std::vector<TensorView>& tensors,
                          NumberType type) {
    const Problems problems = write_model_file(folder.path() / name, tensors, {}, type);
    CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 0);
    return problems.empty() ? "" : problems.front().reason;
  };
  const std::vector<TensorView> some = some_tensors();
  CHECK(reason("a.npz", some, NumberType::bf16) == "NumPy has no bf16");
  CHECK(reason("a.npy", some, NumberType::f32) == "a .npy file has one array, the model 4");
  CHECK(reason("a.onnx", some, NumberType::f32) == "its name does not say its format");
  CHECK(reason("a.pt", {}, NumberType::f32) == "there are no tensors to write");
  const std::vector<float> large = {70000};
  for (const char* name : {"a.pt", "a.npz", "a.safetensors"}) {
    CHECK(reason(name, {{"w", {1}, large}}, NumberType::f16) ==
          "tensor 'w' has values too large for f16");
  }
  CHECK(!reason("none/a.pt", some, NumberType::f32).empty());
  CHECK(!reason("none/a.npy", {some[0]}, NumberType::f32).empty());
  CHECK(read_model_file(folder.path() / "a.onnx").reason == "its name does not say its format");
}

TEST_CASE("a file that is cut off or changed anywhere is refused", "[unit]") {
  const TemporaryFolder folder;
  const std::string ending = GENERATE("pt"s, "npz"s);
  const fs::path file = folder.path() / ("model." + ending);
  const std::vector<TensorView> tensors = {{"w", {2, 3}, std::span(numbers).first(6)}};
  REQUIRE(write_model_file(file, tensors, {}, NumberType::f32).empty());
  const std::string whole = read(file);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write(file, whole.substr(0, length));
    INFO(length);
    REQUIRE(!read_model_file(file).reason.empty());
  }
  const std::size_t data = whole.find(floats(numbers).substr(0, 24));
  REQUIRE(data != std::string::npos);
  for (std::size_t i = data; i < data + 24; ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    write(file, changed);
    INFO(i);
    REQUIRE(!read_model_file(file).reason.empty());
  }
}

TEST_CASE("an archive that claims more than it has is refused before it is unpacked", "[unit]") {
  const Claim honest{.name = "a", .bytes = "xy", .crc = 0x8fe62899, .size = 2};
  REQUIRE(problem_of_archive(archive_of({honest})).empty());
  Claim second = honest;
  second.name = "b";
  REQUIRE(problem_of_archive(archive_of({honest, second})).empty());
  const auto with = [&](auto change) {
    Claim changed = honest;
    change(changed);
    return problem_of_archive(archive_of({changed}));
  };
  CHECK(with([](Claim& claim) {
          claim.method = 8;
          claim.size = 0x7fffffff;
        }) == "it would unpack to far more than its size");
  CHECK(with([](Claim& claim) { claim.size = 3; }).find("sizes") != std::string::npos);
  CHECK(with([](Claim& claim) { claim.method = 12; }).find("unusual") != std::string::npos);
  CHECK(with([](Claim& claim) { claim.flags = 1; }).find("encrypted") != std::string::npos);
  CHECK(!problem_of_archive(archive_of({honest, honest})).empty());
  CHECK(!problem_of_archive(archive_of({honest, second}, true)).empty());
  CHECK(!problem_of_archive(archive_of({honest, honest}, true)).empty());
  CHECK(!problem_of_archive("").empty());
  CHECK(!problem_of_archive("PK\5\6").empty());
  // A checksum is checked when its entry is read.
  const TemporaryFolder folder;
  Claim damaged = honest;
  damaged.crc = 1;
  write(folder.path() / "a.zip", archive_of({damaged}));
  Archive archive(folder.path() / "a.zip");
  REQUIRE(archive.problem().empty());
  std::vector<std::byte> out;
  CHECK(archive.read(0, out).find("CRC") != std::string::npos);
}

TEST_CASE("a torch file whose parts do not fit each other is refused", "[unit]") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "model.pt";
  const std::vector<TensorView> tensors = {{"w", {6}, std::span(numbers).first(6)}};
  const std::string pickle = pickle_of(tensors, NumberType::f32);
  const std::string data = floats(numbers).substr(0, 24);
  const auto reason = [&](const std::vector<ArchivePart>& parts) {
    REQUIRE(write_archive(file, parts).empty());
    return read_torch_file(file).reason;
  };
  REQUIRE(reason({{"m/data.pkl", pickle, {}}, {"m/data/0", data, {}}}).empty());
  REQUIRE(
      reason({{"m/data.pkl", pickle, {}}, {"m/byteorder", "little", {}}, {"m/data/0", data, {}}})
          .empty());
  CHECK(reason({{"m/data.pkl", pickle, {}}}) == "its storage '0' is not there");
  CHECK(reason({{"m/data.pkl", pickle, {}}, {"m/data/0", data + "x", {}}}) ==
        "its storage '0' has another size than its tensors say");
  CHECK(reason({{"m/data.pkl", pickle, {}}, {"m/byteorder", "big", {}}, {"m/data/0", data, {}}}) ==
        "its bytes are not in little-endian order");
  CHECK(reason({{"m/other", "", {}}}).find("no data.pkl") != std::string::npos);
  CHECK(reason({{"a/data.pkl", pickle, {}}, {"b/data.pkl", pickle, {}}}).find("no data.pkl") !=
        std::string::npos);
  CHECK(reason({{"m/data.pkl",
                 "\x80\x02"
                 "cos\nsystem\n.",
                 {}}})
            .find("os.system") != std::string::npos);
  const std::string not_finite = floats({1, 2, 3, std::numeric_limits<float>::quiet_NaN(), 5, 6});
  CHECK(reason({{"m/data.pkl", pickle, {}}, {"m/data/0", not_finite, {}}}) ==
        "tensor 'w' holds values that are not finite");
  write(file, "\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.");
  CHECK(read_torch_file(file).reason == "it has the format from before PyTorch 1.6");
}

TEST_CASE("tensors that repeat one storage too often are refused", "[unit]") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "model.pt";
  const auto reason = [&](std::size_t copies) {
    std::vector<TensorView> tensors;
    for (std::size_t i = 0; i < copies; ++i) {
      tensors.push_back({std::to_string(i), {6}, std::span(numbers).first(6)});
    }
    std::string pickle = pickle_of(tensors, NumberType::f32);
    // Makes all tensors views of the storage of the first.
    for (std::size_t i = 1; i < copies; ++i) {
      const std::string own = "X\1\0\0\0"s + std::to_string(i) + "X\3\0\0\0cpu"s;
      pickle[pickle.find(own) + 5] = '0';
    }
    REQUIRE(write_archive(
                file, {{"m/data.pkl", pickle, {}}, {"m/data/0", floats(numbers).substr(0, 24), {}}})
                .empty());
    return read_torch_file(file).reason;
  };
  CHECK(reason(2).empty());  // Tied weights look like this.
  CHECK(reason(8).empty());
  CHECK(reason(9) == "its tensors repeat the same numbers too often");
}

TEST_CASE("arrays of NumPy are read in either order and of every type", "[unit]") {
  const auto values = [](const std::string& header, const std::string& data) {
    const ModelContents model = read_npy(bytes_of(npy(header, data)), "x");
    INFO(model.reason);
    REQUIRE(model.reason.empty());
    return model.tensors.front().values;
  };
  const std::string data = floats({1, 2, 3, 4, 5, 6});
  const std::string c = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }      \n";
  const std::string f = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n";
  CHECK(values(c, data) == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(values(f, data) == std::vector<float>{1, 3, 5, 2, 4, 6});
  CHECK(values("{'shape':(),'fortran_order':False,'descr':'|u1'}", "\7") == std::vector<float>{7});
  CHECK(values("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }", little(9, 8)) ==
        std::vector<float>{9});
  CHECK(values("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", "\1\0"s) ==
        std::vector<float>{1, 0});
  CHECK(values("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }", "").empty());
  // Format 2.0 has a longer field for the header's length.
  const std::string second = "\x93NUMPY\2\0"s + little(c.size(), 4) + c + data;
  CHECK(read_npy(bytes_of(second), "x").tensors.size() == 1);
}

TEST_CASE("a hostile array is refused with a reason", "[unit]") {
  const auto refusal = [](const std::string& bytes) {
    return read_npy(bytes_of(bytes), "x").reason;
  };
  const auto described = [&](const std::string& header) { return refusal(npy(header, "1234")); };
  REQUIRE(described("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }").empty());
  for (const char* header :
       {"", "{", "{}", "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}"}) {
    INFO(header);
    CHECK(described(header).find("no header") != std::string::npos);
  }
  CHECK(described("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}") ==
        "array 'x' is of type '|O'");
  CHECK(described("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}") ==
        "array 'x' is of type '>f4'");
  for (const char* shape : {"(2,)", "(0,)", "(4294967296, 4294967296)", "(4611686018427387905,)"}) {
    INFO(shape);
    CHECK(described("{'descr': '<f4', 'fortran_order': False, 'shape': "s + shape + "}") ==
          "array 'x' has another size than its header says");
  }
  const std::string whole =
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "1234");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CHECK(!refusal(whole.substr(0, length)).empty());
  }
  CHECK(!refusal("\x93NUMPY\4\0"s + whole.substr(8)).empty());
}

TEST_CASE("tensors fit a model by name in any order or by order under other names", "[unit]") {
  Layout layout;
  layout.add("dense1.weight", {2, 3});
  layout.add("dense1.bias", {2});
  const Tensor weight{.name = "dense1.weight", .shape = {2, 3}, .values = {1, 2, 3, 4, 5, 6}};
  const Tensor bias{.name = "dense1.bias", .shape = {2}, .values = {7, 8}};
  const std::vector<float> expected = {1, 2, 3, 4, 5, 6, 7, 8};
  CHECK(fit_to(layout, {bias, weight}).parameters == expected);
  Tensor first = weight;
  first.name = "0.weight";
  Tensor second = bias;
  second.name = "0.bias";
  const LayoutFit fit = fit_to(layout, {first, second});
  CHECK(fit.parameters == expected);
  CHECK(fit.names.front() == std::pair<std::string, std::string>("0.weight", "dense1.weight"));
  CHECK(fit_to(layout, {second, first}).problem ==
        "its tensor '0.bias' (2) is not of the shape of the model's 'dense1.weight' (2, 3)");
  CHECK(fit_to(layout, {first}).problem == "it has 1 tensors, the model has 2");
  Tensor transposed = weight;
  transposed.shape = {3, 2};
  CHECK(!fit_to(layout, {transposed, bias}).problem.empty());
}

TEST_CASE("the statistics of a batch norm of PyTorch become ours", "[unit]") {
  Layout layout;
  for (const char* name : {"norm1.gain", "norm1.bias", "norm1.mean", "norm1.square"}) {
    layout.add(name, {2});
  }
  const auto tensor = [](const char* name, std::vector<float> values) {
    return Tensor{.name = name, .shape = {values.size()}, .values = values};
  };
  const std::vector<Tensor> torch = {tensor("1.weight", {1, 2}),
                                     tensor("1.bias", {3, 4}),
                                     tensor("1.running_mean", {5, -6}),
                                     tensor("1.running_var", {0.5F, 2}),
                                     {.name = "1.num_batches_tracked", .shape = {}, .values = {9}}};
  const LayoutFit fit = fit_to(layout, torch);
  CHECK(fit.problem.empty());
  CHECK(fit.parameters == std::vector<float>{1, 2, 3, 4, 5, -6, 25.5F, 38});
  CHECK(fit.names.size() == 4);
  // A model of ours keeps its mean squares.
  const std::vector<Tensor> own = {tensor("norm1.square", {0.5F, 2}), tensor("norm1.mean", {5, -6}),
                                   tensor("norm1.bias", {3, 4}), tensor("norm1.gain", {1, 2})};
  CHECK(fit_to(layout, own).parameters == std::vector<float>{1, 2, 3, 4, 5, -6, 0.5F, 2});
}

}  // namespace gv
