// The keys of one layer in a list of layers, and the conversion of layers to text.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "peer/config/setting_builders.hpp"
#include "train/layers/convolution_method.hpp"

namespace gv {
namespace {

using namespace settings;

std::vector<Setting<LayerSpec>> make_layer_settings() {
  std::vector<Setting<LayerSpec>> all;
  const Section<LayerSpec> any{all, ""};
  any.choice("kind", GV_FIELD(kind),
             named_choices(names_of<LayerKind>(
                 {"dense",      "conv2d",     "max_pool",  "avg_pool",  "flatten",
                  "relu",       "tanh",       "gelu",      "dropout",   "layer_norm",
                  "group_norm", "batch_norm", "embedding", "attention", "lstm",
                  "residual",   "stack",      "concat",    "clusters",  "kernel_features"})),
             "what the layer does; required");
  any.with("kind", {"dense", "conv2d", "embedding", "lstm", "clusters", "kernel_features"})
      .add("units", GV_FIELD(units), {1, 1e6},
           "outputs of a dense layer, channels of a convolution, width of an embedding, numbers "
           "that an lstm remembers, centres of clusters, outputs of kernel_features");
  any.with("kind", {"kernel_features"})
      .add("gamma", GV_FIELD(gamma), {least_positive, 1e9},
           "gamma of the kernel exp(-gamma |x - z|^2), which products of the outputs estimate");
  const auto windows = any.with("kind", {"conv2d", "max_pool", "avg_pool"});
  windows.add("kernel", GV_FIELD(kernel), {1, 1024}, "side of the window");
  windows.add("stride", GV_FIELD(stride), {0, 1024}, "0 = 1 for conv2d, the kernel for pools");
  any.with("kind", {"conv2d", "max_pool"})
      .add("padding", GV_FIELD(padding), {0, 1024},
           "zeros added on each side; for a pool, positions added that are never the largest");
  any.with("kind", {"conv2d"})
      .choice("convolution", GV_FIELD(convolution), named_choices(convolution_names),
              "how the convolution is computed; auto: the fastest method for its shape");
  any.with("kind", {"group_norm"})
      .add("groups", GV_FIELD(groups), {1, 65536}, "number of groups of channels");
  any.with("kind", {"batch_norm"})
      .choice("statistics", GV_FIELD(statistics),
              named_choices(names_of<Statistics>({"local", "pooled"})),
              "where models of peers are mixed: pooled = the running statistics are mixed as well; "
              "local = such a config is refused");
  any.with("kind", {"dropout"})
      .add("rate", GV_FIELD(rate), {0, 0.999}, "probability that an activation is dropped");
  any.with("kind", {"dense", "layer_norm"})
      .add("per_position", GV_FIELD(per_position), "true = applied to each position separately");
  any.with("kind", {"dense"})
      .add("tied", GV_FIELD(tied), "true = weights are the table of the first layer, an embedding");
  any.with("kind", {"embedding"})
      .add("vocabulary", GV_FIELD(vocabulary), {1, 1 << 24}, "number of ids; 256 for bytes");
  any.with("kind", {"attention"})
      .add("heads", GV_FIELD(heads), {1, 1024}, "number of heads; a divisor of the width");
  any.with("kind", {"dense", "conv2d", "max_pool", "avg_pool", "embedding", "attention"})
      .choice("split", GV_FIELD(split),
              named_choices(names_of<LayerSplit>({"auto", "none", "model", "rows"})),
              "how the members of a group share the layer: by its outputs, heads, channels or "
              "tokens, by rows of images, or not at all; auto: whichever pays off; only with "
              "pipeline.group above 1");
  all.push_back({.key = "layers",
                 .meaning = "residual: what is added to the input, y = x + layers(x); stack: "
                            "layers one after the other; concat: layers that all take the input, "
                            "and whose outputs are joined along the channels",
                 .type = "list of layers",
                 .condition = any.with("kind", {"residual", "stack", "concat"}).condition,
                 .read = [](const TomlValue&, LayerSpec&) { return std::nullopt; },
                 .show = [](const LayerSpec& spec) { return to_string(spec.layers); }});
  all.push_back(
      {.key = "shortcut",
       .meaning =
           "layers whose output is added to layers(x) in place of the input, if the inner layers "
           "change its shape, such as a convolution with kernel = 1; none = the input is added",
       .type = "list of layers",
       .condition = any.with("kind", {"residual"}).condition,
       .read = [](const TomlValue&, LayerSpec&) { return std::nullopt; },
       .show = [](const LayerSpec& spec) { return to_string(spec.shortcut); }});
  return all;
}

}  // namespace

std::span<const Setting<LayerSpec>> layer_settings() {
  static const std::vector<Setting<LayerSpec>> settings = make_layer_settings();
  return settings;
}

std::string to_string(const LayerSpec& layer) {
  std::string text;
  for (const Setting<LayerSpec>& setting : layer_settings()) {
    if (!setting.counts(layer)) continue;
    text += (text.empty() ? "{" : ", ") + std::string(setting.key) + " = " + setting.show(layer);
  }
  return text + "}";
}

std::string to_string(const std::vector<LayerSpec>& layers) {
  std::string text;
  for (const LayerSpec& layer : layers) text += (text.empty() ? "" : ", ") + to_string(layer);
  return "[" + text + "]";
}

static std::string layer_kind(const LayerSpec& layer) {
  const auto kind = std::ranges::find(layer_settings(), "kind", &Setting<LayerSpec>::key);
  std::string name = kind->show(layer);
  std::erase(name, '"');
  return name;
}

std::string layer_name(const LayerSpec& layer) {
  std::string name = layer_kind(layer);
  if (layer.units > 0) name += " " + std::to_string(layer.units);
  if (layer.layers.empty()) return name;
  std::string inner;
  for (const LayerSpec& one : layer.layers) inner += (inner.empty() ? "" : ", ") + layer_kind(one);
  return name + " (" + inner + ")";
}

}  // namespace gv
