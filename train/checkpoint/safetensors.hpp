// Files of named float32 tensors in the safetensors format, written so that no crash leaves half of
// one.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace gv {

/// A tensor to write; the values stay the caller's.
struct TensorView {
  std::string name;
  std::vector<std::size_t> shape;  ///< Row-major.
  std::span<const float> values;
};

/// Writes `file` under a temporary name in its folder, syncs it, renames it and syncs the folder.
/// Adds checksums (CRC-32) of header and data to the metadata. Returns why it could not, or an
/// empty string; after a failure `file` is as it was.
std::string write_safetensors(const std::filesystem::path& file,
                              const std::vector<TensorView>& tensors,
                              const std::map<std::string, std::string>& metadata);

/// A tensor as read.
struct Tensor {
  std::string name;
  std::vector<std::size_t> shape;
  std::vector<float> values;
};

/// What a file holds; of use only when `problem` is empty.
struct LoadedTensors {
  std::vector<Tensor> tensors;  ///< In file order.
  std::map<std::string, std::string> metadata;
  bool checksummed = false;  ///< False for files of other programs.
  std::string problem;
};

/// Strict: float32 only, no gaps, no trailing bytes, all values finite, checksums equal where there
/// are any. Never throws.
LoadedTensors read_safetensors(const std::filesystem::path& file);

}  // namespace gv
