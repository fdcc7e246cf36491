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
  const Section<LayerSpec> layer{""};
  using Kinds = std::vector<LayerKind>;
  const auto with = [](std::string_view in_words, Kinds kinds, Setting<LayerSpec> setting) {
    return only_with(
        "kind", in_words,
        [kinds = std::move(kinds)](const LayerSpec& spec) {
          return std::find(kinds.begin(), kinds.end(), spec.kind) != kinds.end();
        },
        std::move(setting));
  };
  const Kinds windows{LayerKind::conv2d, LayerKind::max_pool, LayerKind::avg_pool};
  constexpr std::string_view window_words = "kind = \"conv2d\", \"max_pool\" or \"avg_pool\"";
  std::vector<Setting<LayerSpec>> all;
  all.push_back(layer.choice<>(
      "kind", GV_FIELD(kind),
      std::vector<std::pair<std::string, LayerKind>>{{"dense", LayerKind::dense},
                                                     {"conv2d", LayerKind::conv2d},
                                                     {"max_pool", LayerKind::max_pool},
                                                     {"avg_pool", LayerKind::avg_pool},
                                                     {"flatten", LayerKind::flatten},
                                                     {"relu", LayerKind::relu},
                                                     {"tanh", LayerKind::tanh},
                                                     {"gelu", LayerKind::gelu},
                                                     {"dropout", LayerKind::dropout},
                                                     {"layer_norm", LayerKind::layer_norm},
                                                     {"group_norm", LayerKind::group_norm},
                                                     {"embedding", LayerKind::embedding},
                                                     {"attention", LayerKind::attention},
                                                     {"residual", LayerKind::residual}},
      "what the layer does; required"));
  all.push_back(with("kind = \"dense\", \"conv2d\" or \"embedding\"",
                     {LayerKind::dense, LayerKind::conv2d, LayerKind::embedding},
                     layer.whole("units", GV_FIELD(units), {1, 1e6},
                                 "outputs of a dense layer, channels of a convolution, width of an "
                                 "embedding")));
  all.push_back(with(window_words, windows,
                     layer.whole("kernel", GV_FIELD(kernel), {1, 1024}, "side of the window")));
  all.push_back(with(window_words, windows,
                     layer.whole("stride", GV_FIELD(stride), {0, 1024},
                                 "0 = 1 for conv2d, the kernel for pools")));
  all.push_back(with("kind = \"conv2d\"", {LayerKind::conv2d},
                     layer.whole("padding", GV_FIELD(padding), {0, 1024}, "zeros on each side")));
  all.push_back(with("kind = \"group_norm\"", {LayerKind::group_norm},
                     layer.whole("groups", GV_FIELD(groups), {1, 65536}, "groups of channels")));
  all.push_back(with("kind = \"dropout\"", {LayerKind::dropout},
                     layer.number("rate", GV_FIELD(rate), {0, 0.999},
                                  "probability that an activation is dropped")));
  all.push_back(with("kind = \"dense\" or \"layer_norm\"",
                     {LayerKind::dense, LayerKind::layer_norm},
                     layer.flag("per_position", GV_FIELD(per_position),
                                "at every position of a sequence by itself")));
  all.push_back(with("kind = \"dense\"", {LayerKind::dense},
                     layer.flag("tied", GV_FIELD(tied),
                                "weights are the table of the embedding the model begins with")));
  all.push_back(with("kind = \"embedding\"", {LayerKind::embedding},
                     layer.whole("vocabulary", GV_FIELD(vocabulary), {1, 1 << 24},
                                 "ids are below this: 256 for bytes")));
  all.push_back(with("kind = \"attention\"", {LayerKind::attention},
                     layer.whole("heads", GV_FIELD(heads), {1, 1024}, "a divisor of the width")));
  Setting<LayerSpec> inside{"", "layers", "what is added to the input: y = x + layers(x)",
                            "list of layers"};
  inside.read = [](const TomlValue&, LayerSpec&) { return std::nullopt; };
  inside.show = [](const LayerSpec& spec) { return to_string(spec.layers); };
  all.push_back(with("kind = \"residual\"", {LayerKind::residual}, std::move(inside)));
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
    if (setting.has_effect && !setting.has_effect(layer)) continue;
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
