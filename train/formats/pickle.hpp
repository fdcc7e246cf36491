// The part of Python's pickle format in which PyTorch writes state dicts. Nothing in a pickle is
// executed: a few functions have a built-in meaning here, and all others are refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "train/checkpoint/number_type.hpp"

namespace gv {

/// Refers to a value of a pickle by its index in Pickle::values. Values may refer to each other in
/// cycles.
using PickleRef = std::uint32_t;

/// A list or a tuple.
struct PickleList {
  std::vector<PickleRef> items;
};

/// A dictionary, ordered or not. A key may occur more than once.
struct PickleDict {
  std::vector<std::pair<PickleRef, PickleRef>> items;
};

/// The functions and classes that a pickle may name, besides the types of storages.
enum class PickleFunction { ordered_dict, rebuild_tensor, rebuild_parameter };

/// The number type of a storage. PyTorch names a class for each type.
struct PickleStorageType {
  NumberType type;
};

/// A sequence of numbers, stored in a separate file.
struct PickledStorage {
  NumberType type = NumberType::f32;
  std::string key;             ///< The name of the storage's file.
  std::uint64_t elements = 0;  ///< The number of values in the storage.
};

/// A view of a storage. It lies inside the storage and has at most as many elements as the storage.
struct PickledTensor {
  PickledStorage storage;
  std::uint64_t offset = 0;
  std::vector<std::size_t> shape;
  std::vector<std::uint64_t> strides;  ///< The stride of each dimension, in elements.
};

/// A value: nothing (Python's None), or a value of one of these types.
using PickleValue =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, PickleList, PickleDict,
                 PickleFunction, PickleStorageType, PickledStorage, PickledTensor>;

/// The content of a pickle. Usable only if `problem` is empty.
struct Pickle {
  std::vector<PickleValue> values;
  PickleRef root = 0;
  std::string problem;  ///< Why the pickle was refused, and at which place in it.
};

inline constexpr std::size_t pickle_bytes_max = 16 << 20;
inline constexpr std::size_t pickle_values_max = 1 << 20;
inline constexpr std::size_t tensor_rank_max = 32;

/// Reads a pickle of protocol 2, which torch.save() writes. Never throws.
Pickle read_pickle(std::span<const std::byte> bytes);

}  // namespace gv
