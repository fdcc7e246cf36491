// Fits a file's tensors into a layout by comparing names and shapes.
#include "train/formats/layout_fit.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/printable.hpp"

namespace gv {
namespace {

std::string described(const std::string& name, const std::vector<std::size_t>& shape) {
  std::string text = "'" + printable(name, 200) + "' (";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + ")";
}

/// Turns the variances in `values` into mean squares; `mean` has the means of the same channels.
/// PyTorch's batch norm stores variances, but ours stores mean squares, which peers can average.
void add_squares(std::span<const float> mean, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += mean[i] * mean[i];
}

}  // namespace

LayoutFit fit_to(const Layout& layout, const std::vector<Tensor>& all) {
  LayoutFit fit;
  // The number of batches that PyTorch's batch norm has seen is not a parameter.
  std::vector<const Tensor*> tensors;
  for (const Tensor& tensor : all) {
    if (!tensor.name.ends_with("num_batches_tracked")) tensors.push_back(&tensor);
  }
  const auto& slots = layout.slots();
  if (tensors.size() != slots.size()) {
    fit.problem = "it has " + std::to_string(tensors.size()) + " tensors, the model has " +
                  std::to_string(slots.size());
    return fit;
  }
  const auto tensor_of = [&](const TensorSlot& slot) {
    return std::ranges::find(tensors, slot.name, &Tensor::name);
  };
  const bool by_name = std::ranges::all_of(
      slots, [&](const TensorSlot& slot) { return tensor_of(slot) != tensors.end(); });
  fit.parameters.resize(layout.size());
  const std::span<float> parameters(fit.parameters);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const TensorSlot& slot = slots[i];
    const Tensor& tensor = by_name ? **tensor_of(slot) : *tensors[i];
    if (tensor.shape != slot.shape) {
      fit.problem = "its tensor " + described(tensor.name, tensor.shape) +
                    " is not of the shape of the model's " + described(slot.name, slot.shape);
      return fit;
    }
    fit.names.emplace_back(tensor.name, slot.name);
    const std::span<float> own = parameters.subspan(slot.offset, slot.size);
    std::ranges::copy(tensor.values, own.begin());
    if (slot.name.ends_with(".square") && tensor.name.ends_with("running_var")) {
      add_squares(parameters.subspan(slots[i - 1].offset, slot.size), own);
    }
  }
  return fit;
}

}  // namespace gv
