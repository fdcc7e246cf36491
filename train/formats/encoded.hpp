// Converts the values of tensors to a file's bytes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "train/checkpoint/number_type.hpp"
#include "train/checkpoint/safetensors.hpp"

namespace gv {

/// A tensor's values as little-endian bytes. f32 values are not copied, so the tensor must outlive
/// this object.
class EncodedValues {
 public:
  EncodedValues(std::span<const float> values, NumberType type) : values_(values) {
    if (type == NumberType::f32) return;
    converted_.resize(values.size() * bytes_of(type));
    (void)write_numbers(type, values, converted_);
  }

  std::span<const std::byte> bytes() const {
    return converted_.empty() ? std::as_bytes(values_) : std::span<const std::byte>(converted_);
  }

 private:
  std::span<const float> values_;
  std::vector<std::byte> converted_;
};

}  // namespace gv
