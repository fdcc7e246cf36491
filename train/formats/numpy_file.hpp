// NumPy's files: .npy, which holds one array, and .npz, an archive of several.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "train/checkpoint/number_type.hpp"
#include "train/checkpoint/safetensors.hpp"
#include "train/formats/model_contents.hpp"

namespace gv {

/// Reads the array of a .npy file as a tensor called `name`. Never throws, whatever the bytes are.
ModelContents read_npy(std::span<const std::byte> bytes, const std::string& name);

/// Reads a .npy file. The name of the file becomes the name of the tensor.
ModelContents read_npy_file(const std::filesystem::path& file);

/// Reads a .npz file written by np.savez() or np.savez_compressed(). Each array is a tensor.
ModelContents read_npz_file(const std::filesystem::path& file);

/// Writes a .npy file with values of type f32 or f16 under a temporary name, and then renames it.
/// Returns the reason for a failure, or an empty string.
std::string write_npy_file(const std::filesystem::path& file, const TensorView& tensor,
                           NumberType type);

/// Writes a .npz file as np.savez() does. Returns the reason for a failure, or an empty string.
std::string write_npz_file(const std::filesystem::path& file,
                           const std::vector<TensorView>& tensors, NumberType type);

}  // namespace gv
