// A model, in the form that all readers of files return.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "train/checkpoint/safetensors.hpp"

namespace gv {

/// The contents of a model's file. Usable only if `reason` is empty. Then all values are finite.
struct ModelContents {
  std::vector<Tensor> tensors;
  std::map<std::string, std::string> metadata;
  std::vector<std::string> left_out;  ///< Names of entries in the file that are not tensors.
  std::string reason;                 ///< Why the file cannot be used.
  std::string remedy;                 ///< The remedy.
};

/// A file that cannot be used.
inline ModelContents refused(std::string reason, std::string remedy) {
  ModelContents contents;
  contents.reason = std::move(reason);
  contents.remedy = std::move(remedy);
  return contents;
}

}  // namespace gv
