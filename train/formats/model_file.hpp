// Model files in the formats of other programs, chosen by the extension of the file name.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/problems.hpp"
#include "train/checkpoint/number_type.hpp"
#include "train/checkpoint/safetensors.hpp"
#include "train/formats/model_contents.hpp"

namespace gv {

/// The known extensions, for messages.
inline constexpr const char* model_file_endings = ".safetensors, .pt, .pth, .bin, .npz or .npy";

/// Reads a file in the format that its extension names. Nothing in the file is executed.
ModelContents read_model_file(const std::filesystem::path& file);

/// Writes a file in the format that its extension names; .pth and .bin are the same as .pt. A .npy
/// file can hold only one tensor, and the files of NumPy cannot hold bf16. Only safetensors keeps
/// metadata. Returns the problems; if there are any, `file` is unchanged.
Problems write_model_file(const std::filesystem::path& file, const std::vector<TensorView>& tensors,
                          const std::map<std::string, std::string>& metadata, NumberType type);

}  // namespace gv
