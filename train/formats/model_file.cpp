// Chooses the reader or writer for a model file.
#include "train/formats/model_file.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <span>

#include "base/printable.hpp"
#include "train/formats/numpy_file.hpp"
#include "train/formats/torch_file.hpp"

namespace gv {
namespace {

enum class Format { safetensors, torch, npz, npy };

std::optional<Format> format_of(const std::filesystem::path& file) {
  const std::string ending = file.extension().string();
  if (ending == ".safetensors") return Format::safetensors;
  if (ending == ".pt" || ending == ".pth" || ending == ".bin") return Format::torch;
  if (ending == ".npz") return Format::npz;
  if (ending == ".npy") return Format::npy;
  return std::nullopt;
}

ModelContents read_tensors(const std::filesystem::path& file) {
  LoadedTensors loaded = read_safetensors(file);
  if (!loaded.problem.empty()) {
    return refused(loaded.problem, "copy or download the file again");
  }
  return {.tensors = std::move(loaded.tensors),
          .metadata = std::move(loaded.metadata),
          .left_out = {},
          .reason = {},
          .remedy = {}};
}

/// The first tensor with a value that is too large for this type; null if there is none.
const TensorView* too_large(const std::vector<TensorView>& tensors, NumberType type) {
  std::vector<std::byte> bytes;
  for (const TensorView& tensor : tensors) {
    bytes.resize(tensor.values.size() * bytes_of(type));
    if (!write_numbers(type, tensor.values, bytes)) return &tensor;
  }
  return nullptr;
}

}  // namespace

ModelContents read_model_file(const std::filesystem::path& file) {
  const auto format = format_of(file);
  if (!format) {
    return refused("its name does not say its format",
                   std::string("give it a name that ends in ") + model_file_endings);
  }
  switch (*format) {
    case Format::safetensors:
      return read_tensors(file);
    case Format::torch:
      return read_torch_file(file);
    case Format::npz:
      return read_npz_file(file);
    case Format::npy:
      return read_npy_file(file);
  }
  return {};
}

Problems write_model_file(const std::filesystem::path& file, const std::vector<TensorView>& tensors,
                          const std::map<std::string, std::string>& metadata, NumberType type) {
  const auto format = format_of(file);
  const auto refuse = [&](std::string reason, std::string remedy) {
    return Problems{{file.string(), std::move(reason), std::move(remedy)}};
  };
  if (!format) {
    return refuse("its name does not say its format",
                  std::string("give it a name that ends in ") + model_file_endings);
  }
  const bool is_numpy = *format == Format::npz || *format == Format::npy;
  if (is_numpy && type == NumberType::bf16) {
    return refuse("NumPy has no bf16", "choose --type f32 or f16, or another format");
  }
  if (tensors.empty()) return refuse("there are no tensors to write", "name another model");
  if (*format == Format::npy && tensors.size() != 1) {
    return refuse("a .npy file has one array, the model " + std::to_string(tensors.size()),
                  "write a .npz file");
  }
  if (const TensorView* tensor = too_large(tensors, type)) {
    return refuse("tensor '" + printable(tensor->name, 200) + "' has values too large for " +
                      std::string(to_string(type)),
                  "choose --type f32 or bf16");
  }
  std::string problem;
  if (*format == Format::safetensors) {
    problem = write_safetensors(file, tensors, metadata, type);
  } else if (*format == Format::torch) {
    problem = write_torch_file(file, tensors, type);
  } else if (*format == Format::npz) {
    problem = write_npz_file(file, tensors, type);
  } else {
    problem = write_npy_file(file, tensors.front(), type);
  }
  if (problem.empty()) return {};
  return refuse(problem, "name a file in a folder that can be written to");
}

}  // namespace gv
