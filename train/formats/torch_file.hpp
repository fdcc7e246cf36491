// Files that PyTorch's torch.save() writes for a state dict.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/checkpoint/number_type.hpp"
#include "train/checkpoint/safetensors.hpp"
#include "train/formats/model_contents.hpp"

namespace gv {

/// Reads the tensors of a file in the zip format of PyTorch 1.6 and later. Nothing in the file is
/// executed. Uses at most eight times the memory of the unpacked file. Never throws, whatever the
/// file contains.
ModelContents read_torch_file(const std::filesystem::path& file);

/// Writes an ordered dictionary of tensors, as torch.save(model.state_dict(), file) does, with
/// values of type f32, f16 or bf16. Returns the reason for a failure, or an empty string.
std::string write_torch_file(const std::filesystem::path& file,
                             const std::vector<TensorView>& tensors, NumberType type);

}  // namespace gv
