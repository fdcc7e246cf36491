// The named tensors of a model in a pickle, in the form of PyTorch's state_dict().
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train/checkpoint/number_type.hpp"
#include "train/checkpoint/safetensors.hpp"
#include "train/formats/pickle.hpp"

namespace gv {

/// The tensors of a pickle. The names of tensors in nested dictionaries and lists are paths with
/// dots: "model.fc.weight", "layers.0".
struct StateDict {
  std::vector<std::pair<std::string, PickledTensor>> tensors;
  std::vector<std::string> left_out;  ///< The names of values that are not tensors.
  std::string problem;                ///< Why it was refused. Empty if it was not.
};

/// Collects the tensors. A tensor that is the whole pickle is called `lone`.
StateDict state_dict_of(const Pickle& pickle, const std::string& lone);

/// The pickle of an ordered dictionary of tensors. The values of tensor number i are the storage
/// with the key i.
std::string pickle_of(const std::vector<TensorView>& tensors, NumberType type);

}  // namespace gv
