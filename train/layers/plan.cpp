// Shape inference and the naming of parameter tensors.
#include "train/layers/plan.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "consensus/base/check.hpp"

namespace gv {
namespace {

/// More elements than this in one tensor is a slip of the pen, not a model for this program.
constexpr std::size_t elements_max = std::size_t{1} << 31;

std::string_view stem(LayerKind kind) {
  switch (kind) {
    case LayerKind::dense:
      return "dense";
    case LayerKind::conv2d:
      return "conv";
    case LayerKind::layer_norm:
    case LayerKind::group_norm:
      return "norm";
    default:
      return "layer";
  }
}

/// Output side of a window sliding over `size` + 2 * padding; 0 when it does not fit.
std::size_t slide(std::size_t size, std::size_t kernel, std::size_t stride, std::size_t padding) {
  const std::size_t padded = size + 2 * padding;
  return kernel == 0 || stride == 0 || kernel > padded ? 0 : (padded - kernel) / stride + 1;
}

}  // namespace

ModelPlan plan_model(const ModelSpec& spec, const SampleShape& input, Problems& problems) {
  ModelPlan plan;
  plan.in = input;
  SampleShape shape = input;
  std::map<std::string, int> numbers;
  const auto problem = [&](std::size_t index, std::string reason, std::string remedy) {
    problems.push_back(
        {"layers[" + std::to_string(index) + "]", std::move(reason), std::move(remedy)});
  };
  if (spec.layers.empty())
    problems.push_back({"layers", "there are none", "name at least one dense layer"});
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    LayerPlan layer{
        .spec = spec.layers[i], .in = shape, .out = shape, .weight = plan.layout.size()};
    LayerSpec& own = layer.spec;
    const auto add = [&](std::string name, const char* first, std::vector<std::size_t> dimensions,
                         std::size_t biases) {
      name += std::to_string(++numbers[name]);
      layer.has_parameters = true;
      plan.layout.add(name + first, std::move(dimensions));
      layer.bias = plan.layout.size();
      plan.layout.add(name + ".bias", {biases});
    };
    const std::string name(stem(own.kind));
    switch (own.kind) {
      case LayerKind::dense:
        if (own.units == 0) {
          problem(i, "a dense layer needs units", "set units to the number of its outputs");
          return plan;
        }
        layer.out = {own.units, 1, 1};
        if (own.units > elements_max / elements(shape)) {
          problem(i, "the layer is too large", "use fewer units");
          return plan;
        }
        add(name, ".weight", {own.units, elements(shape)}, own.units);
        break;
      case LayerKind::conv2d:
        if (own.stride == 0) own.stride = 1;
        layer.out = {own.units, slide(shape[1], own.kernel, own.stride, own.padding),
                     slide(shape[2], own.kernel, own.stride, own.padding)};
        if (own.units == 0 || own.padding >= std::max<std::size_t>(own.kernel, 1) ||
            elements(layer.out) == 0) {
          problem(i,
                  "a convolution needs units and a kernel that fits its input of " +
                      std::to_string(shape[1]) + "x" + std::to_string(shape[2]),
                  "set units, kernel and a padding below the kernel");
          return plan;
        }
        add(name, ".weight", {own.units, shape[0], own.kernel, own.kernel}, own.units);
        break;
      case LayerKind::max_pool:
      case LayerKind::avg_pool:
        if (own.stride == 0) own.stride = own.kernel;
        layer.out = {shape[0], slide(shape[1], own.kernel, own.stride, 0),
                     slide(shape[2], own.kernel, own.stride, 0)};
        if (elements(layer.out) == 0) {
          problem(i,
                  "a pool needs a kernel that fits its input of " + std::to_string(shape[1]) + "x" +
                      std::to_string(shape[2]),
                  "set kernel to at most that");
          return plan;
        }
        break;
      case LayerKind::flatten:
        layer.out = {elements(shape), 1, 1};
        break;
      case LayerKind::dropout:
        if (!(own.rate >= 0 && own.rate < 1)) {
          problem(i, "the rate of a dropout layer is a probability below 1",
                  "set rate to 0.5 or so");
        }
        break;
      case LayerKind::layer_norm:
        add(name, ".gain", {elements(shape)}, elements(shape));
        break;
      case LayerKind::group_norm:
        if (own.groups == 0 || shape[0] % own.groups != 0) {
          problem(i, "groups must divide the " + std::to_string(shape[0]) + " channels",
                  "choose a divisor");
          return plan;
        }
        add(name, ".gain", {shape[0]}, shape[0]);
        break;
      case LayerKind::relu:
      case LayerKind::tanh:
      case LayerKind::gelu:
        break;
    }
    shape = layer.out;
    plan.layers.push_back(layer);
  }
  plan.outputs = elements(shape);
  if (plan.layout.size() == 0 && problems.empty()) {
    problems.push_back({"layers", "no layer has parameters", "name at least one dense layer"});
  }
  return plan;
}

ModelPlan slice(const ModelPlan& plan, std::size_t first, std::size_t last) {
  check(first < last && last <= plan.layers.size(), "a slice has layers of its plan");
  const std::size_t begin = plan.layers[first].weight;
  const std::size_t end =
      last == plan.layers.size() ? plan.layout.size() : plan.layers[last].weight;
  ModelPlan part;
  part.in = plan.layers[first].in;
  part.outputs = elements(plan.layers[last - 1].out);
  for (const TensorSlot& slot : plan.layout.slots()) {
    if (slot.offset >= begin && slot.offset < end) part.layout.add(slot.name, slot.shape);
  }
  for (std::size_t i = first; i < last; ++i) {
    part.layers.push_back(plan.layers[i]);
    LayerPlan& layer = part.layers.back();
    layer.weight -= begin;
    if (layer.has_parameters) layer.bias -= begin;
  }
  return part;
}

}  // namespace gv
