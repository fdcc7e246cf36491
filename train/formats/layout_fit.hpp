// Matches the tensors of a file with those of a model.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train/checkpoint/safetensors.hpp"
#include "train/learner/layout.hpp"

namespace gv {

/// A file's tensors as a model's parameters. Usable only if `problem` is empty.
struct LayoutFit {
  std::vector<float> parameters;  ///< layout.size() parameters, in the order of the layout.
  /// For each tensor of the layout, its name in the file and its name in the layout.
  std::vector<std::pair<std::string, std::string>> names;
  std::string problem;
};

/// Fits tensors into a layout, by name if the file has all names of the layout, otherwise by order.
/// Their number and the shape of each must match the layout. Nothing is transposed, because
/// PyTorch's layers keep their weights in the same shapes as ours. For PyTorch's batch norms, the
/// counts of batches are left out, and a variance (a name that ends in "running_var") becomes the
/// mean square.
LayoutFit fit_to(const Layout& layout, const std::vector<Tensor>& all);

}  // namespace gv
