// Finds the tensors of a file that are those of a model.
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
  /// For each tensor of the layout, its name in the file and its own.
  std::vector<std::pair<std::string, std::string>> names;
  std::string problem;
};

/// Fits tensors into a layout: by their names if these are those of the layout, else by their
/// order, in which there must be as many, each of the shape that the layout has there. Nothing is
/// transposed: PyTorch's layers keep their weights in the same shapes.
LayoutFit fit_to(const Layout& layout, const std::vector<Tensor>& tensors);

}  // namespace gv
