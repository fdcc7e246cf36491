// Tensors whose elements are not contiguous: transposed ones, and pieces of larger ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "train/checkpoint/safetensors.hpp"

namespace gv {

/// Copies the elements of a view of `storage` into tensor.values, row by row, and checks that they
/// are finite. The view has the shape of the tensor, begins at `offset`, has a stride for each
/// dimension, and must lie inside the storage. Returns why the values cannot be used, or an empty
/// string.
std::string gather(std::span<const float> storage, std::uint64_t offset,
                   std::span<const std::uint64_t> strides, Tensor& tensor);

}  // namespace gv
