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
  std::vector<float> parameters;  ///< (layout.size())
  /// For each tensor of the layout, its name in the file and its own name.
  std::vector<std::pair<std::string, std::string>> names;
  std::string problem;
};

/// Fits tensors into a layout: by name if the names are those of the layout, otherwise by order. In
/// the latter case their number and the shape of each must match the layout. Nothing is transposed,
/// because PyTorch's layers keep their weights in the same shapes.
LayoutFit fit_to(const Layout& layout, const std::vector<Tensor>& tensors);

}  // namespace gv
