// The targets `pickle`, `npy` and `archive`: model files from PyTorch and NumPy.
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
#include "train/formats/gpt2.hpp"
#include "train/formats/model_file.hpp"
#include "train/formats/numpy_file.hpp"
#include "train/formats/pickle.hpp"
#include "train/formats/state_dict.hpp"
#include "train/formats/torch_file.hpp"

namespace gv::fuzz {
namespace {

const std::vector<float> values = {1, -2, 0.5F, 3, 4, 5};

std::vector<TensorView> some_tensors() {
  return {{"layer.weight", {2, 3}, values}, {"b", {}, std::span(values).first(1)}};
}

/// A GPT-2 with one block, one position, a vocabulary of one id and a width of one.
std::vector<TensorView> gpt2_tensors() {
  const std::span<const float> one = std::span(values).first(1);
  const std::span<const float> three = std::span(values).first(3);
  const std::span<const float> four = std::span(values).first(4);
  return {{"wte.weight", {1, 1}, one},
          {"wpe.weight", {1, 1}, one},
          {"h.0.ln_1.weight", {1}, one},
          {"h.0.ln_1.bias", {1}, one},
          {"h.0.attn.c_attn.weight", {1, 3}, three},
          {"h.0.attn.c_attn.bias", {3}, three},
          {"h.0.attn.c_proj.weight", {1, 1}, one},
          {"h.0.attn.c_proj.bias", {1}, one},
          {"h.0.ln_2.weight", {1}, one},
          {"h.0.ln_2.bias", {1}, one},
          {"h.0.mlp.c_fc.weight", {1, 4}, four},
          {"h.0.mlp.c_fc.bias", {4}, four},
          {"h.0.mlp.c_proj.weight", {4, 1}, four},
          {"h.0.mlp.c_proj.bias", {1}, one},
          {"ln_f.weight", {1}, one},
          {"ln_f.bias", {1}, one}};
}

/// The bytes of a file that contains the tensors. `ending` is the file's extension.
Bytes written(const std::string& ending, const std::vector<TensorView>& tensors, NumberType type) {
  std::string pattern = "/tmp/grapevine-fuzz-XXXXXX";
  check(::mkdtemp(pattern.data()) != nullptr, "there is room for a folder");
  const std::filesystem::path file = std::filesystem::path(pattern) / ("seed" + ending);
  check(write_model_file(file, tensors, {}, type).empty(), "a seed can be written");
  std::ifstream in(file, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  std::filesystem::remove_all(pattern);
  return bytes_of(text);
}

void check_tensors(const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) {
    std::size_t elements = 1;
    for (const std::size_t side : tensor.shape) elements *= side;
    check(elements == tensor.values.size(), "a tensor has as many values as its shape says");
    for (const float value : tensor.values) check(std::isfinite(value), "values are finite");
  }
}

/// Checks what every reader of model files promises.
void check_model(const ModelContents& model) {
  if (!model.reason.empty()) {
    check(!model.remedy.empty(), "a refusal says what to do");
    return;
  }
  check(!model.tensors.empty(), "there are tensors, or a reason");
  check_tensors(model.tensors);
  for (const std::size_t positions : {0, 1}) {
    const RenamedTensors ours = from_gpt2(model.tensors, {.positions = positions});
    check_tensors(ours.tensors);
    if (ours.reason.empty()) check(to_gpt2(ours.tensors).reason.empty(), "it can be written again");
  }
}

// ---- Pickles ----

/// Checks that the last element of a view, if it has any, lies in its storage.
void check_view(const PickledTensor& tensor) {
  std::uint64_t last = tensor.offset;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] == 0) return;
    last += tensor.strides[i] * (tensor.shape[i] - 1);
  }
  check(last < tensor.storage.elements, "a tensor lies in its storage");
}

void feed_pickle(std::span<const std::byte> bytes) {
  const Pickle pickle = read_pickle(bytes);
  if (!pickle.problem.empty()) return;
  check(pickle.root < pickle.values.size(), "a pickle has a value");
  const StateDict dict = state_dict_of(pickle, "lone");
  if (!dict.problem.empty()) return;
  for (const auto& [name, tensor] : dict.tensors) check_view(tensor);
}

std::vector<Bytes> pickle_seeds() {
  using namespace std::string_literals;
  // A dictionary inside another one, with a list, numbers of all kinds, a parameter and memo
  // entries.
  const std::string tensor =
      "ctorch._utils\n_rebuild_tensor_v2\nq\1((X\7\0\0\0storagectorch\nDoubleStorage\n"
      "X\1\0\0\0"
      "0X\3\0\0\0cpuK\6tQK\0K\2K\3\x86K\3K\1\x86\x89}tR"s;
  const std::string nested =
      "\x80\x02}(X\1\0\0\0a](NG?\xf0\0\0\0\0\0\0M\1\1J\1\0\0\0\x8a\2\1\1eX\1\0"
      "\0\0"
      "b}K\7"s +
      tensor + "sX\1\0\0\0cctorch._utils\n_rebuild_parameter\n"s + tensor +
      "\x88}\x87RX\1\0\0\0dh\1u}b."s;
  return {bytes_of(pickle_of(some_tensors(), NumberType::f32)),
          bytes_of(pickle_of(some_tensors(), NumberType::bf16)), bytes_of(nested)};
}

// ---- Arrays ----

void feed_npy(std::span<const std::byte> bytes) { check_model(read_npy(bytes, "array")); }

std::vector<Bytes> npy_seeds() {
  const std::string_view columns = "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 1)}abcd";
  std::string text("\x93NUMPY\2\0\x38\0\0\0", 12);
  text += columns;
  return {written(".npy", {some_tensors().front()}, NumberType::f32),
          written(".npy", {some_tensors().back()}, NumberType::f16), bytes_of(text)};
}

// ---- Archives ----

void feed_archive(std::span<const std::byte> bytes) {
  static MemoryFile file;
  file.write(bytes);
  check_model(read_torch_file(file.path()));
  check_model(read_npz_file(file.path()));
}

std::vector<Bytes> archive_seeds() {
  return {written(".pt", some_tensors(), NumberType::f32),
          written(".pt", some_tensors(), NumberType::f16),
          written(".npz", some_tensors(), NumberType::f32),
          written(".npz", gpt2_tensors(), NumberType::f32)};
}

}  // namespace

Target pickle_target() { return {.name = "pickle", .feed = feed_pickle, .seeds = pickle_seeds}; }
Target npy_target() { return {.name = "npy", .feed = feed_npy, .seeds = npy_seeds}; }
Target archive_target() {
  return {.name = "archive", .feed = feed_archive, .seeds = archive_seeds};
}

}  // namespace gv::fuzz
