// Converts between floats and the types of tensors.
#include "peer/library/user_tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/halves.hpp"
#include "base/magnitude.hpp"
#include "base/number_at.hpp"
#include "train/checkpoint/safetensors.hpp"

namespace gv {
namespace {

constexpr std::size_t floats_of_integer = 4;
constexpr std::size_t bits_in_float = 16;

void read_doubles(const std::byte* from, std::span<float> to) {
  for (float& value : to) {
    value = static_cast<float>(number_at<double>(from));
    from += sizeof(double);
  }
}

void write_doubles(std::span<const float> from, std::byte* to) {
  for (const float value : from) {
    const double wide = value;
    std::memcpy(to, &wide, sizeof wide);
    to += sizeof wide;
  }
}

void read_integers(const std::byte* from, std::span<float> to) {
  for (std::size_t i = 0; i < to.size(); i += floats_of_integer) {
    auto bits = number_at<std::uint64_t>(from);
    from += sizeof bits;
    for (std::size_t part = 0; part < floats_of_integer; ++part) {
      to[i + part] = static_cast<float>(bits & 0xffff);
      bits >>= bits_in_float;
    }
  }
}

/// Writes integers from floats that hold 16 bits each. The floats may come from another peer and
/// have any value, so each is limited to 16 bits.
void write_integers(std::span<const float> from, std::byte* to) {
  for (std::size_t i = 0; i < from.size(); i += floats_of_integer) {
    std::uint64_t bits = 0;
    for (std::size_t part = floats_of_integer; part-- > 0;) {
      const float value = std::isfinite(from[i + part]) ? from[i + part] : 0;
      bits = bits << bits_in_float | static_cast<std::uint64_t>(std::clamp(value, 0.0F, 65535.0F));
    }
    std::memcpy(to, &bits, sizeof bits);
    to += sizeof bits;
  }
}

/// The number of values that are converted and checked at a time; they fit in a processor's cache.
constexpr std::size_t piece_elements = 4096;

std::size_t bytes_of(TensorType type) {
  switch (type) {
    case TensorType::f16:
    case TensorType::bf16:
      return 2;
    case TensorType::f32:
      return 4;
    case TensorType::f64:
    case TensorType::i64:
      break;
  }
  return 8;
}

void read_part(const UserTensor& tensor, std::size_t begin, std::span<float> part) {
  const std::byte* const from = tensor.data + begin * bytes_of(tensor.type);
  switch (tensor.type) {
    case TensorType::f32:
      std::memcpy(part.data(), from, part.size_bytes());
      break;
    case TensorType::f16:
      decode_fp16({from, 2 * part.size()}, part);
      break;
    case TensorType::bf16:
      decode_bf16({from, 2 * part.size()}, part);
      break;
    case TensorType::f64:
      read_doubles(from, part);
      break;
    case TensorType::i64:
      read_integers(from, part);
      break;
  }
}

}  // namespace

std::size_t UserTensor::floats() const {
  return type == TensorType::i64 ? elements * floats_of_integer : elements;
}

void UserTensors::add(UserTensor tensor) {
  size_ += tensor.floats();
  names_.insert(tensor.name);
  all_.push_back(std::move(tensor));
}

Problems checkpoint_problems(const UserTensors& model) {
  const std::size_t count = model.all().size();
  if (count <= tensors_in_file_max) return {};
  return {{"tensors",
           "the model has " + std::to_string(count) + ", and a checkpoint holds at most " +
               std::to_string(tensors_in_file_max),
           "give several small tensors as one, such as the weights of all heads as one array"}};
}

float UserTensors::largest_magnitude() const {
  float largest = 0;
  std::vector<float> values(std::min(piece_elements, size_));
  for (const UserTensor& tensor : all_) {
    for (std::size_t begin = 0; begin < tensor.elements; begin += piece_elements) {
      const std::size_t count = std::min(piece_elements, tensor.elements - begin);
      const std::span<float> part(values.data(), count);
      read_part(tensor, begin, part);
      const float here = gv::largest_magnitude(part);
      // A comparison with NaN is false, so the negated test also finds NaN.
      if (!(here <= largest)) largest = here;
      if (std::isnan(largest)) return largest;
    }
  }
  return largest;
}

void UserTensors::check_finite() const {
  for (const UserTensor& tensor : all_) {
    UserTensors one;
    one.add(tensor);
    if (std::isfinite(one.largest_magnitude())) continue;
    throw std::invalid_argument("tensor '" + tensor.name +
                                "': it has values that are not finite; set all its values, or "
                                "leave it out");
  }
}

Layout UserTensors::layout() const {
  Layout layout;
  for (const UserTensor& tensor : all_) layout.add(tensor.name, tensor.shape);
  return layout;
}

void UserTensors::read(std::span<float> to) const {
  for (const UserTensor& tensor : all_) {
    const std::span<float> part = to.first(tensor.floats());
    to = to.subspan(part.size());
    read_part(tensor, 0, part);
  }
}

void UserTensors::write(std::span<const float> from) const {
  for (const UserTensor& tensor : all_) {
    const std::span<const float> part = from.first(tensor.floats());
    from = from.subspan(part.size());
    switch (tensor.type) {
      case TensorType::f32:
        std::memcpy(tensor.data, part.data(), part.size_bytes());
        break;
      case TensorType::f16:
        encode_fp16(part, {tensor.data, 2 * part.size()});
        break;
      case TensorType::bf16:
        encode_bf16(part, {tensor.data, 2 * part.size()});
        break;
      case TensorType::f64:
        write_doubles(part, tensor.data);
        break;
      case TensorType::i64:
        write_integers(part, tensor.data);
        break;
    }
  }
}

}  // namespace gv
