// Files of named tensors in the safetensors format, written so that a crash never leaves half a
// file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "train/checkpoint/number_type.hpp"

namespace gv {

/// The most tensors in a file. The parser searches each table of names from the front, so its time
/// grows with the square of the number of tensors.
inline constexpr std::size_t tensors_in_file_max = 20000;

/// A tensor to write. The caller owns the values.
struct TensorView {
  std::string name;
  std::vector<std::size_t> shape;  ///< Dimensions of the tensor, row-major.
  std::span<const float> values;
};

/// A file of tensors that is complete on the disk, but only under a temporary name in its folder.
/// The destructor removes it, unless rename() has replaced `file` with it.
class PreparedTensors {
 public:
  /// Writes and syncs the temporary file, as write_safetensors() does.
  PreparedTensors(std::filesystem::path file, const std::vector<TensorView>& tensors,
                  const std::map<std::string, std::string>& metadata,
                  NumberType type = NumberType::f32);
  ~PreparedTensors();
  PreparedTensors(const PreparedTensors&) = delete;
  PreparedTensors& operator=(const PreparedTensors&) = delete;

  /// Why the file could not be written; empty if it is complete.
  const std::string& problem() const { return problem_; }
  /// Replaces `file`, and syncs its folder. Call only if there is no problem. Returns the reason
  /// for a failure, or an empty string.
  std::string rename();

 private:
  std::filesystem::path file_;
  std::filesystem::path temporary_;
  std::string problem_;
  bool is_renamed_ = false;
};

/// Writes `file` under a temporary name in its folder, syncs it, renames it and syncs the folder.
/// Values are written as `type`: f32, f16 or bf16. Adds checksums (CRC-32) of header and data to
/// the metadata. Returns the reason for a failure, or an empty string. After a failure, `file` is
/// unchanged. More than `tensors_in_file_max` tensors are refused, because such a file could not be
/// read back.
std::string write_safetensors(const std::filesystem::path& file,
                              const std::vector<TensorView>& tensors,
                              const std::map<std::string, std::string>& metadata,
                              NumberType type = NumberType::f32);

/// A tensor that was read.
struct Tensor {
  std::string name;
  std::vector<std::size_t> shape;
  std::vector<float> values;
  NumberType type = NumberType::f32;  ///< The type that the values had in the file.
};

/// The contents of a file. Usable only if `problem` is empty.
struct LoadedTensors {
  std::vector<Tensor> tensors;  ///< The tensors in the order of the file.
  std::map<std::string, std::string> metadata;
  bool checksummed = false;  ///< False if another program wrote the file without checksums.
  std::string problem;
};

/// Reads a file strictly: no gaps, no trailing bytes, all values finite, integers only if float32
/// holds them exactly, and checksums correct if there are any. Never throws.
LoadedTensors read_safetensors(const std::filesystem::path& file);

}  // namespace gv
