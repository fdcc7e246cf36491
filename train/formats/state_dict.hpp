// The named tensors of a model in a pickle, in the form of PyTorch's state_dict().
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train/checkpoint/number_type.hpp"
#include "train/checkpoint/safetensors.hpp"
#include "train/formats/pickle.hpp"

namespace gv {

/// The tensors of a pickle. The name of a tensor in nested dictionaries and lists is a path with
/// dots: "model.fc.weight", "layers.0".
struct StateDict {
  std::vector<std::pair<std::string, PickledTensor>> tensors;
  std::vector<std::string> left_out;  ///< The names of values that are not tensors.
  std::string problem;                ///< Why the pickle was refused; empty if it was not.
};

/// Collects the tensors of a pickle. If the whole pickle is one tensor, its name is `lone`.
StateDict state_dict_of(const Pickle& pickle, const std::string& lone);

/// Returns the pickle of an ordered dictionary of tensors. The values of tensor number i are in the
/// storage with key i.
std::string pickle_of(const std::vector<TensorView>& tensors, NumberType type);

}  // namespace gv
