// A model in the form that the readers of all file formats return.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "train/checkpoint/safetensors.hpp"

namespace gv {

/// The contents of a model file. Usable only if `reason` is empty; all values are then finite.
struct ModelContents {
  std::vector<Tensor> tensors;
  std::map<std::string, std::string> metadata;
  std::vector<std::string> left_out;  ///< Names of entries in the file that are not tensors and
                                      ///< were thus ignored.
  std::string reason;                 ///< Why the file cannot be used.
  std::string remedy;                 ///< What a person can do about the problem in `reason`.
};

/// Returns the contents for a file that cannot be used.
inline ModelContents refused(std::string reason, std::string remedy) {
  ModelContents contents;
  contents.reason = std::move(reason);
  contents.remedy = std::move(remedy);
  return contents;
}

}  // namespace gv
