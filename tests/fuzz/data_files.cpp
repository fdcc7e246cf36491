// The targets `safetensors`, `csv`, `idx` and `cifar`: files of models and of data.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "tests/fuzz/scratch.hpp"
#include "tests/fuzz/target.hpp"
#include "train/checkpoint/safetensors.hpp"
#include "train/data/readers.hpp"
#include "train/data/sample_files.hpp"

namespace gv::fuzz {
namespace {

// ---- Models ----

void feed_safetensors(std::span<const std::byte> bytes) {
  static MemoryFile file;
  file.write(bytes);
  const LoadedTensors loaded = read_safetensors(file.path());
  if (!loaded.problem.empty()) return;
  for (const Tensor& tensor : loaded.tensors) {
    std::size_t elements = 1;
    for (const std::size_t side : tensor.shape) elements *= side;
    check(elements == tensor.values.size(), "a tensor has as many values as its shape says");
    for (const float value : tensor.values) check(std::isfinite(value), "values are finite");
  }
}

std::vector<Bytes> safetensors_seeds() {
  std::string pattern = "/tmp/grapevine-fuzz-XXXXXX";
  check(::mkdtemp(pattern.data()) != nullptr, "there is room for a folder");
  const std::filesystem::path file = std::filesystem::path(pattern) / "seed";
  const std::vector<float> values = {1, -2, 0.5F, 3, 4, 5};
  std::vector<Bytes> found;
  const auto add = [&](const std::vector<TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata) {
    check(write_safetensors(file, tensors, metadata).empty(), "a seed can be written");
    std::ifstream in(file, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    found.push_back(bytes_of(text));
  };
  add({}, {});
  add({{"x", {2, 3}, values}}, {{"step", "12"}});
  add({{"a", {6}, values}, {"b", {1, 1, 4}, std::span(values).first(4)}}, {});
  std::filesystem::remove_all(pattern);
  // This seed has no checksums, like files from other programs, so changed values are not refused
  // at once.
  found.push_back({std::byte{59}, std::byte{}, std::byte{}, std::byte{}, std::byte{}, std::byte{},
                   std::byte{}, std::byte{}});
  const Bytes plain = bytes_of(R"({"x":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}   )");
  found.back().insert(found.back().end(), plain.begin(), plain.end());
  found.back().insert(found.back().end(), 8, std::byte{});
  return found;
}

// ---- Data ----

void check_data(const LoadedDataSet& loaded) {
  check((loaded.data == nullptr) == !loaded.problems.empty(), "there are data, or problems");
  if (loaded.data == nullptr) return;
  const DataSet& data = *loaded.data;
  std::vector<float> sample(data.features());
  for (std::size_t i = 0; i < data.size(); ++i) data.read(i, sample);
  for (const std::int32_t label : data.labels) {
    check(label >= 0 && static_cast<std::size_t>(label) < data.classes, "labels are of classes");
  }
}

/// Checks that data read in blocks equal data read at once, or that both readings are refused.
/// Reading in blocks may also be refused because the file is compressed.
void check_in_files(const LoadedDataSet& opened, const LoadedDataSet& whole) {
  check((opened.data == nullptr) == !opened.problems.empty(), "there are data, or problems");
  if (opened.data == nullptr) {
    const bool is_compressed = opened.problems.back().reason.starts_with("it is compressed");
    check(whole.data == nullptr || is_compressed, "what is read whole is read in blocks");
    return;
  }
  const SampleBlocks& blocks = *opened.data->blocks;
  std::vector<std::int32_t> labels;
  for (std::size_t block = 0; block < blocks.count(); ++block) {
    const LoadedDataSet loaded = blocks.read(block);
    check_data(loaded);
    if (loaded.data == nullptr) return;
    labels.insert(labels.end(), loaded.data->labels.begin(), loaded.data->labels.end());
  }
  if (whole.data != nullptr) check(labels == whole.data->labels, "both have the same labels");
}

constexpr std::size_t block_bytes = 64;  ///< So small that even short files have several blocks.

/// The first byte gives the number of target columns.
void feed_csv(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  static MemoryFile file;
  file.write(bytes.subspan(1));
  const std::size_t targets = std::to_integer<std::size_t>(bytes[0]) % 4;
  const LoadedDataSet whole = read_csv(file.path(), targets);
  check_data(whole);
  check_in_files(open_csv(file.path(), targets, block_bytes), whole);
}

std::vector<Bytes> csv_seeds() {
  return {bytes_of(std::string_view("\0"
                                    "a,b,label\n1,2.5,0\n-3,4e2,1\n",
                                    28)),
          bytes_of("\1"
                   "1,2,3\n4,5,6\n"),
          bytes_of("\2"
                   "x,\"y\",z,w\r\n0.1,.2,3.,nan\r\n\r\n1,2,3,4")};
}

/// The first byte is the length of the labels, which precede the images.
void feed_idx(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  static MemoryFile images, labels;
  const std::size_t length = std::min(std::to_integer<std::size_t>(bytes[0]), bytes.size() - 1);
  labels.write(bytes.subspan(1, length));
  images.write(bytes.subspan(1 + length));
  const LoadedDataSet whole = read_idx(images.path(), labels.path());
  check_data(whole);
  check_in_files(open_idx(images.path(), labels.path(), block_bytes), whole);
  check_data(read_idx(images.path(), labels.path(), [](const DataSet& data) {
    std::vector<std::uint32_t> chosen;
    for (std::size_t i = 0; i < data.size(); i += 2) {
      chosen.push_back(static_cast<std::uint32_t>(i));
    }
    return chosen;
  }));
}

std::vector<Bytes> idx_seeds() {
  const auto labels = std::string_view("\0\0\x08\x01\0\0\0\3\1\0\2", 11);
  const auto images = std::string_view("\0\0\x08\x03\0\0\0\3\0\0\0\2\0\0\0\2abcdefghijkl", 28);
  const auto empty = std::string_view("\0\0\x08\x03\0\0\0\0\0\0\0\2\0\0\0\2", 16);
  const auto compressed = std::string_view("\x1f\x8b\x08\0\0\0\0\0\0\3\3\0\0\0\0\0\0\0\0\0", 20);
  std::vector<Bytes> found;
  for (const std::string_view content : {images, empty, compressed}) {
    found.push_back(bytes_of(std::string(1, '\x0b') + std::string(labels) + std::string(content)));
  }
  return found;
}

/// The first byte is the length of the first of two files, in units of 64 bytes.
void feed_cifar(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  static MemoryFile first, second;
  const std::size_t wanted = std::to_integer<std::size_t>(bytes[0]) * 64;
  const std::size_t length = std::min(wanted, bytes.size() - 1);
  first.write(bytes.subspan(1, length));
  second.write(bytes.subspan(1 + length));
  const LoadedDataSet whole = read_cifar10({first.path(), second.path()});
  check_data(whole);
  check_in_files(open_cifar10({first.path(), second.path()}, block_bytes), whole);
  check_data(read_cifar10({second.path()}));
}

std::vector<Bytes> cifar_seeds() {
  const Bytes record(3073, std::byte{7});
  std::vector<Bytes> found(2, Bytes{std::byte{0}});
  found[0].insert(found[0].end(), record.begin(), record.end());
  found[1].insert(found[1].end(), 2 * record.size(), std::byte{3});
  return found;
}

}  // namespace

Target safetensors_target() {
  return {.name = "safetensors", .feed = feed_safetensors, .seeds = safetensors_seeds};
}
Target csv_target() { return {.name = "csv", .feed = feed_csv, .seeds = csv_seeds}; }
Target idx_target() { return {.name = "idx", .feed = feed_idx, .seeds = idx_seeds}; }
Target cifar_target() {
  return {.name = "cifar", .feed = feed_cifar, .seeds = cifar_seeds, .bytes_max = 10'000};
}

}  // namespace gv::fuzz
