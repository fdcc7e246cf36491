// The keys of a layer in a list of layers, and layers as text.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "peer/config/setting_builders.hpp"

namespace gv {
namespace {

using namespace settings;

std::vector<Setting<LayerSpec>> make_layer_settings() {
  using enum LayerKind;
  std::vector<Setting<LayerSpec>> all;
  const Section<LayerSpec> any{all, ""};
  const auto of = [&any](const std::string& words, std::vector<LayerKind> kinds) {
    return any.only_with("kind", "kind = " + words,
                         [kinds = std::move(kinds)](const LayerSpec& spec) {
                           return std::ranges::count(kinds, spec.kind) > 0;
                         });
  };
  any.choice("kind", GV_FIELD(kind),
             {{"dense", dense},
              {"conv2d", conv2d},
              {"max_pool", max_pool},
              {"avg_pool", avg_pool},
              {"flatten", flatten},
              {"relu", relu},
              {"tanh", LayerKind::tanh},
              {"gelu", gelu},
              {"dropout", dropout},
              {"layer_norm", layer_norm},
              {"group_norm", group_norm},
              {"embedding", embedding},
              {"attention", attention},
              {"residual", residual}},
             "what the layer does; required");
  of("\"dense\", \"conv2d\" or \"embedding\"", {dense, conv2d, embedding})
      .add("units", GV_FIELD(units), {1, 1e6},
           "outputs of a dense layer, channels of a convolution, width of an embedding");
  const auto windows = of("\"conv2d\", \"max_pool\" or \"avg_pool\"", {conv2d, max_pool, avg_pool});
  windows.add("kernel", GV_FIELD(kernel), {1, 1024}, "side of the window");
  windows.add("stride", GV_FIELD(stride), {0, 1024}, "0 = 1 for conv2d, the kernel for pools");
  of("\"conv2d\"", {conv2d}).add("padding", GV_FIELD(padding), {0, 1024}, "zeros on each side");
  of("\"group_norm\"", {group_norm})
      .add("groups", GV_FIELD(groups), {1, 65536}, "groups of channels");
  of("\"dropout\"", {dropout})
      .add("rate", GV_FIELD(rate), {0, 0.999}, "probability that an activation is dropped");
  of("\"dense\" or \"layer_norm\"", {dense, layer_norm})
      .add("per_position", GV_FIELD(per_position), "at every position of a sequence by itself");
  of("\"dense\"", {dense})
      .add("tied", GV_FIELD(tied), "weights are the table of the embedding the model begins with");
  of("\"embedding\"", {embedding})
      .add("vocabulary", GV_FIELD(vocabulary), {1, 1 << 24}, "ids are below this: 256 for bytes");
  of("\"attention\"", {attention})
      .add("heads", GV_FIELD(heads), {1, 1024}, "a divisor of the width");
  all.push_back({.key = "layers",
                 .meaning = "what is added to the input: y = x + layers(x)",
                 .type = "list of layers",
                 .condition = of("\"residual\"", {residual}).condition,
                 .read = [](const TomlValue&, LayerSpec&) { return std::nullopt; },
                 .show = [](const LayerSpec& spec) { return to_string(spec.layers); }});
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

}  // namespace gv
