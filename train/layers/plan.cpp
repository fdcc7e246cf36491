// Infers shapes and names the parameter tensors.
#include "train/layers/plan.hpp"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "base/check.hpp"
#include "train/layers/convolution_method.hpp"
#include "train/layers/cut_rows.hpp"
#include "train/layers/ternary.hpp"

namespace gv {
namespace {

/// A tensor with more elements than this counts as a mistake in the config.
constexpr std::size_t elements_max = std::size_t{1} << 31;

/// True if a tensor with these sides has at most `elements_max` elements. Their product is not
/// computed, because it could overflow.
bool fits(std::initializer_list<std::size_t> sides) {
  std::size_t room = elements_max;
  for (const std::size_t side : sides) room /= std::max<std::size_t>(side, 1);
  return room > 0;
}

/// Ids are sent as floats, which hold all whole numbers up to this one exactly.
constexpr std::size_t vocabulary_max = std::size_t{1} << 24;

std::string_view stem(LayerKind kind) {
  switch (kind) {
    case LayerKind::dense:
      return "dense";
    case LayerKind::conv2d:
      return "conv";
    case LayerKind::layer_norm:
    case LayerKind::group_norm:
    case LayerKind::batch_norm:
      return "norm";
    case LayerKind::embedding:
      return "embedding";
    case LayerKind::attention:
      return "attention";
    case LayerKind::lstm:
      return "lstm";
    case LayerKind::clusters:
      return "clusters";
    default:
      return "layer";
  }
}

/// The name that problems use for a model's first layer.
constexpr std::string_view first_place = "layers[0]";

/// Number of positions of a window that slides over `size` + 2 * padding values; 0 if the window
/// does not fit.
std::size_t slide(std::size_t size, std::size_t kernel, std::size_t stride, std::size_t padding) {
  const std::size_t padded = size + 2 * padding;
  return kernel == 0 || stride == 0 || kernel > padded ? 0 : (padded - kernel) / stride + 1;
}

std::string text(const SampleShape& shape) {
  return std::to_string(shape[0]) + "x" + std::to_string(shape[1]) + "x" + std::to_string(shape[2]);
}

/// Resolves the layers of a model in order, including layers inside others.
class Planner {
 public:
  Planner(ModelPlan& plan, Precision precision, Problems& problems)
      : plan_(plan), precision_(precision), problems_(problems) {}

  /// Appends the layers of `specs` to `into`. `place` names the list in problems. Returns false
  /// after an error that makes the remaining layers meaningless.
  bool append(const std::vector<LayerSpec>& specs, const std::string& place, SampleShape& shape,
              std::vector<LayerPlan>& into) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (!append_one(specs[i], place + "[" + std::to_string(i) + "]", shape, into)) return false;
      shape = into.back().out;
    }
    return true;
  }

 private:
  bool append_one(const LayerSpec& spec, const std::string& place, const SampleShape& in,
                  std::vector<LayerPlan>& into) {
    place_ = place;
    const std::size_t at = plan_.layout.size();
    LayerPlan layer{
        .spec = spec, .in = in, .out = in, .begin = at, .end = at, .weight = at, .bias = at};
    const bool rounds = spec.kind == LayerKind::dense || spec.kind == LayerKind::conv2d;
    if (rounds) layer.precision = precision_;
    if (!may_split(spec) || !resolve(layer)) return false;
    if (!fits({layer.out[0], layer.out[1], layer.out[2]})) return refuse_size();
    layer.end = plan_.layout.size();
    into.push_back(std::move(layer));
    return true;
  }

  bool refuse(std::string reason, std::string remedy) {
    problems_.push_back({place_, std::move(reason), std::move(remedy)});
    return false;
  }

  bool refuse_size(std::string remedy = "use fewer units") {
    return refuse("the layer is too large", std::move(remedy));
  }

  bool may_split(const LayerSpec& spec) {
    const bool has_windows = slides_over_rows(spec.kind);
    if (spec.split == LayerSplit::rows && !has_windows) {
      return refuse("only convolutions and pools can be shared by rows of images",
                    "write split = \"model\"");
    }
    if (spec.tied && spec.split != LayerSplit::automatic) {
      return refuse("a tied layer is shared like the embedding whose table it uses",
                    "write split in the embedding instead");
    }
    const bool is_pool = has_windows && spec.kind != LayerKind::conv2d;
    if (spec.split != LayerSplit::model || !is_pool) return true;
    return refuse("a pool has nothing to share by model", "write split = \"rows\"");
  }

  std::string new_name(LayerKind kind) {
    std::string name(stem(kind));
    return name + std::to_string(++numbers_[name]);
  }

  /// Adds two tensors to the layout: weights, then biases.
  void add(LayerPlan& layer, const std::string& first, std::vector<std::size_t> dimensions,
           std::size_t biases, const std::string& second = ".bias") {
    const std::string name = new_name(layer.spec.kind);
    plan_.layout.add(name + first, std::move(dimensions));
    layer.bias = plan_.layout.size();
    plan_.layout.add(name + second, {biases});
  }

  bool resolve(LayerPlan& layer) {
    LayerSpec& own = layer.spec;
    const SampleShape& shape = layer.in;
    switch (own.kind) {
      case LayerKind::dense:
        return resolve_dense(layer);
      case LayerKind::conv2d:
        return resolve_convolution(layer);
      case LayerKind::max_pool:
      case LayerKind::avg_pool:
        return resolve_pool(layer);
      case LayerKind::flatten:
        layer.out = {elements(shape), 1, 1};
        return true;
      case LayerKind::dropout:
        if (!(own.rate >= 0 && own.rate < 1)) {
          refuse("the rate of a dropout layer is a probability below 1", "set rate to 0.5 or so");
        }
        return true;
      case LayerKind::layer_norm:
        if (own.per_position) layer.rows = shape[0];
        add(layer, ".gain", {elements(shape) / layer.rows}, elements(shape) / layer.rows);
        return true;
      case LayerKind::group_norm:
        if (own.groups == 0 || shape[0] % own.groups != 0) {
          return refuse("groups must divide the " + std::to_string(shape[0]) + " channels",
                        "choose a divisor");
        }
        add(layer, ".gain", {shape[0]}, shape[0]);
        return true;
      case LayerKind::batch_norm:
        resolve_batch_norm(layer);
        return true;
      case LayerKind::embedding:
        return resolve_embedding(layer);
      case LayerKind::attention:
        return resolve_attention(layer);
      case LayerKind::lstm:
        return resolve_lstm(layer);
      case LayerKind::residual:
        return resolve_residual(layer);
      case LayerKind::stack:
        return resolve_stack(layer);
      case LayerKind::concat:
        return resolve_concat(layer);
      case LayerKind::clusters:
        if (own.units == 0 || !fits({own.units, elements(shape)})) {
          return refuse("clusters need units: the number of centres", "set units to 10 or so");
        }
        add(layer, ".sums", {own.units, elements(shape)}, own.units, ".counts");
        return true;
      case LayerKind::kernel_features:
        return resolve_kernel_features(layer);
      case LayerKind::relu:
      case LayerKind::tanh:
      case LayerKind::gelu:
        return true;
    }
    return true;
  }

  bool resolve_kernel_features(LayerPlan& layer) {
    const LayerSpec& own = layer.spec;
    const bool is_even = own.units > 0 && own.units % 2 == 0;
    if (!is_even || !fits({own.units, elements(layer.in)})) {
      return refuse("kernel_features need units: an even number of outputs",
                    "set units to 512 or so");
    }
    if (!(own.gamma > 0)) {
      return refuse("the kernel needs a gamma above 0",
                    "set gamma to 1 / (the square of the distance of samples that are alike)");
    }
    layer.out = {own.units, 1, 1};
    return true;
  }

  bool resolve_convolution(LayerPlan& layer) {
    LayerSpec& own = layer.spec;
    const SampleShape& shape = layer.in;
    if (own.stride == 0) own.stride = 1;
    layer.out = {own.units, slide(shape[1], own.kernel, own.stride, own.padding),
                 slide(shape[2], own.kernel, own.stride, own.padding)};
    if (own.units == 0 || own.padding >= std::max<std::size_t>(own.kernel, 1) ||
        elements(layer.out) == 0) {
      return refuse("a convolution needs units and a kernel that fits its input of " +
                        std::to_string(shape[1]) + "x" + std::to_string(shape[2]),
                    "set units, kernel and a padding below the kernel");
    }
    if (!fits({own.units, shape[0], own.kernel, own.kernel})) {
      return refuse_size("use fewer units or a smaller kernel");
    }
    if (own.convolution == ConvolutionMethod::automatic) {
      own.convolution = quickest_method(layer);
    } else if (const auto problem = method_problem(layer)) {
      return refuse(problem->reason, problem->remedy);
    }
    add(layer, ".weight", {own.units, shape[0], own.kernel, own.kernel}, own.units);
    return true;
  }

  bool resolve_pool(LayerPlan& layer) {
    LayerSpec& own = layer.spec;
    const SampleShape& shape = layer.in;
    if (own.stride == 0) own.stride = own.kernel;
    layer.out = {shape[0], slide(shape[1], own.kernel, own.stride, own.padding),
                 slide(shape[2], own.kernel, own.stride, own.padding)};
    if (elements(layer.out) == 0 || own.padding > own.kernel / 2) {
      return refuse("a pool needs a kernel that fits its input of " + std::to_string(shape[1]) +
                        "x" + std::to_string(shape[2]) + ", and a padding of at most half of it",
                    "set kernel to at most that, and padding to 0 or kernel / 2");
    }
    return true;
  }

  bool resolve_dense(LayerPlan& layer) {
    const LayerSpec& own = layer.spec;
    if (own.per_position) layer.rows = layer.in[0];
    const std::size_t width = elements(layer.in) / layer.rows;
    if (own.units == 0) {
      return refuse("a dense layer needs units", "set units to the number of its outputs");
    }
    layer.out =
        own.per_position ? SampleShape{layer.rows, 1, own.units} : SampleShape{own.units, 1, 1};
    if (!fits({own.units, width})) return refuse_size();
    if (!own.tied) {
      add(layer, ".weight", {own.units, width}, own.units);
      return true;
    }
    LayerPlan* first = plan_.layers.empty() ? nullptr : &plan_.layers.front();
    if (first == nullptr || first->spec.kind != LayerKind::embedding || first->is_shared ||
        first->spec.vocabulary != own.units || first->spec.units != width) {
      return refuse("there is no table of " + std::to_string(own.units) + " x " +
                        std::to_string(width) + " for this layer to be tied to",
                    "begin the model with an embedding of that vocabulary and width, and tie one "
                    "layer to it");
    }
    first->is_shared = true;
    layer.weight = first->weight;
    layer.spec.split = first->spec.split;
    plan_.layout.add(new_name(own.kind) + ".bias", {own.units});
    return true;
  }

  void resolve_batch_norm(LayerPlan& layer) {
    const std::string name = new_name(layer.spec.kind);
    const std::vector<std::size_t> channels{layer.in[0]};
    plan_.layout.add(name + ".gain", channels);
    layer.bias = plan_.layout.size();
    plan_.layout.add(name + ".bias", channels);
    plan_.layout.add(name + ".mean", channels);
    plan_.layout.add(name + ".square", channels);
  }

  bool resolve_embedding(LayerPlan& layer) {
    const LayerSpec& own = layer.spec;
    // Ids must be the model's inputs, because an embedding gives its inputs no gradient.
    if (place_ != first_place) {
      return refuse("an embedding takes ids, and other layers give none",
                    "use it as the first layer of the model, and not inside another");
    }
    if (layer.in[1] != 1 || layer.in[2] != 1) {
      return refuse("an embedding takes one id at each position, not an input of " + text(layer.in),
                    "use it as the first layer, on text");
    }
    if (own.units == 0 || own.vocabulary == 0 || own.vocabulary > vocabulary_max) {
      return refuse("an embedding needs units and a vocabulary of 1 to 2^24",
                    "set units to the width and vocabulary to 256 for bytes");
    }
    if (!fits({own.vocabulary, own.units}) || !fits({layer.in[0], own.units})) {
      return refuse_size("use fewer units or a smaller vocabulary");
    }
    const std::string name = new_name(own.kind);
    layer.out = {layer.in[0], 1, own.units};
    plan_.layout.add(name + ".tokens", {own.vocabulary, own.units});
    layer.bias = plan_.layout.size();
    plan_.layout.add(name + ".positions", {layer.in[0], own.units});
    return true;
  }

  bool resolve_attention(LayerPlan& layer) {
    const std::size_t heads = layer.spec.heads;
    const std::size_t width = layer.in[2];
    if (layer.in[1] != 1) {
      return refuse("attention takes a sequence, not an input of " + text(layer.in),
                    "begin the model with an embedding");
    }
    if (heads == 0 || width % heads != 0) {
      return refuse("heads must divide the width of " + std::to_string(width), "choose a divisor");
    }
    if (!fits({3, width, width})) return refuse_size("use fewer units in the layer before it");
    const std::string name = new_name(layer.spec.kind);
    plan_.layout.add(name + ".qkv.weight", {3 * width, width});
    layer.bias = plan_.layout.size();
    plan_.layout.add(name + ".qkv.bias", {3 * width});
    plan_.layout.add(name + ".out.weight", {width, width});
    plan_.layout.add(name + ".out.bias", {width});
    return true;
  }

  bool resolve_lstm(LayerPlan& layer) {
    const std::size_t units = layer.spec.units;
    const std::size_t width = layer.in[2];
    if (layer.in[1] != 1) {
      return refuse("an lstm takes a sequence, not an input of " + text(layer.in),
                    "begin the model with an embedding");
    }
    if (units == 0 || !fits({4, units, width}) || !fits({4, units, units})) {
      return refuse("an lstm needs units: the numbers that it remembers", "set units to 128 or so");
    }
    layer.out = {layer.in[0], 1, units};
    const std::string name = new_name(layer.spec.kind);
    plan_.layout.add(name + ".input_gates", {4 * units, width});
    plan_.layout.add(name + ".state_gates", {4 * units, units});
    layer.bias = plan_.layout.size();
    plan_.layout.add(name + ".gate_biases", {4 * units});
    return true;
  }

  bool resolve_residual(LayerPlan& layer) {
    const std::string own_place = place_;
    if (!append(layer.spec.layers, own_place + ".layers", layer.out, layer.layers)) return false;
    place_ = own_place;
    if (layer.layers.empty()) return refuse("a residual layer without layers", "name some inside");
    SampleShape beside = layer.in;
    if (!append(layer.spec.shortcut, own_place + ".shortcut", beside, layer.shortcut)) return false;
    place_ = own_place;
    if (layer.out != beside) {
      return refuse(
          "a residual layer's sum needs what is inside to give " + text(beside) + ", not " +
              text(layer.out),
          "end it with a layer of that shape, or add a shortcut = [{ kind = \"conv2d\" }] "
          "that gives " +
              text(layer.out));
    }
    layer.spec.layers.clear();
    layer.spec.shortcut.clear();
    const LayerPlan& last = layer.layers.back();
    if (last.spec.kind == LayerKind::attention) {
      plan_.residual_weights.push_back(attention_offsets(last).out_weight);
    } else if (last.spec.kind == LayerKind::dense) {
      plan_.residual_weights.push_back(last.weight);
    }
    return true;
  }

  bool resolve_stack(LayerPlan& layer) {
    const std::string own_place = place_;
    if (!append(layer.spec.layers, own_place + ".layers", layer.out, layer.layers)) return false;
    layer.spec.layers.clear();
    return true;
  }

  bool resolve_concat(LayerPlan& layer) {
    const std::string own_place = place_;
    layer.out[0] = 0;
    for (std::size_t i = 0; i < layer.spec.layers.size(); ++i) {
      const std::string place = own_place + ".layers[" + std::to_string(i) + "]";
      if (!append_one(layer.spec.layers[i], place, layer.in, layer.layers)) return false;
      place_ = own_place;
      const SampleShape& first = layer.layers.front().out;
      const SampleShape& own = layer.layers.back().out;
      if (own[1] != first[1] || own[2] != first[2]) {
        return refuse("the layers of a concat need outputs of one height and width, not of " +
                          text(first) + " and " + text(own),
                      "give them kernels, strides and paddings that keep those alike");
      }
      layer.out[0] += own[0];
      layer.out[1] = own[1];
      layer.out[2] = own[2];
    }
    if (layer.layers.empty()) return refuse("a concat without layers", "name some inside");
    layer.spec.layers.clear();
    return true;
  }

  ModelPlan& plan_;
  Precision precision_;
  Problems& problems_;
  std::string place_;  ///< Name of the layer being resolved, for problems.
  std::map<std::string, int> numbers_;
};

bool is_tied(const LayerPlan& layer) {
  return layer.spec.tied || std::ranges::any_of(layer.layers, is_tied) ||
         std::ranges::any_of(layer.shortcut, is_tied);
}

void append_statistics(const LayerPlan& layer, std::vector<Range>& into) {
  const std::size_t channels = layer.in[0];
  if (layer.spec.kind == LayerKind::batch_norm) {
    into.push_back({layer.bias + channels, layer.bias + 3 * channels});
  }
  for (const LayerPlan& inner : layer.layers) append_statistics(inner, into);
  for (const LayerPlan& beside : layer.shortcut) append_statistics(beside, into);
}

/// A copy of the layer and of the layers inside it, with offsets counted from `begin`.
LayerPlan shifted(LayerPlan layer, std::size_t begin) {
  for (std::size_t* offset : {&layer.begin, &layer.end, &layer.weight, &layer.bias}) {
    *offset -= begin;
  }
  for (LayerPlan& inner : layer.layers) inner = shifted(std::move(inner), begin);
  for (LayerPlan& beside : layer.shortcut) beside = shifted(std::move(beside), begin);
  return layer;
}

}  // namespace

AttentionOffsets attention_offsets(const LayerPlan& plan) {
  const std::size_t width = plan.in[2];
  const std::size_t out_weight = plan.bias + 3 * width;
  return {.qkv_weight = plan.weight,
          .qkv_bias = plan.bias,
          .out_weight = out_weight,
          .out_bias = out_weight + width * width};
}

ModelPlan plan_model(const ModelSpec& spec, const SampleShape& input, Problems& problems) {
  ModelPlan plan;
  plan.in = input;
  plan.weights = spec.weights;
  if (spec.layers.empty()) {
    problems.push_back({"layers", "there are none", "name at least one dense layer"});
    return plan;
  }
  SampleShape shape = input;
  if (!Planner(plan, spec.precision, problems).append(spec.layers, "layers", shape, plan.layers))
    return plan;
  plan.outputs = elements(shape);
  LayerPlan& first = plan.layers.front();
  LayerPlan& last = plan.layers.back();
  last.gives_logits = last.spec.kind == LayerKind::dense && spec.loss == LossKind::cross_entropy;
  if (first.is_shared && !(last.gives_logits && last.spec.tied)) {
    if (first.spec.split == LayerSplit::model) {
      problems.push_back({"layers[0]",
                          "the layer tied to it is not the last one before a "
                          "cross_entropy, so every member of a group needs the table",
                          "write split = \"auto\""});
    }
    first.spec.split = LayerSplit::none;
  }
  if (plan.layout.size() == 0 && problems.empty()) {
    problems.push_back({"layers", "no layer has parameters", "name at least one dense layer"});
  } else if (plan.weights == WeightValues::ternary && weight_matrices(plan.layout).empty()) {
    problems.push_back({"layers", "no layer has a weight matrix, which could be ternary",
                        "write weights = \"float\""});
  }
  return plan;
}

bool may_cut(const ModelPlan& plan, std::size_t at) {
  if (at == 0) return true;
  return std::none_of(plan.layers.begin() + static_cast<std::ptrdiff_t>(at), plan.layers.end(),
                      is_tied);
}

std::vector<Range> statistics_of(const ModelPlan& plan) {
  std::vector<Range> found;
  for (const LayerPlan& layer : plan.layers) append_statistics(layer, found);
  return found;
}

ModelPlan slice(const ModelPlan& plan, std::size_t first, std::size_t last) {
  check(first < last && last <= plan.layers.size(), "a slice has layers of its plan");
  check(may_cut(plan, first) && may_cut(plan, last), "tied layers stay in one slice");
  const std::size_t begin = plan.layers[first].begin;
  const std::size_t end = plan.layers[last - 1].end;
  ModelPlan part;
  part.in = plan.layers[first].in;
  part.weights = plan.weights;
  part.outputs = elements(plan.layers[last - 1].out);
  for (const TensorSlot& slot : plan.layout.slots()) {
    if (slot.offset >= begin && slot.offset < end) part.layout.add(slot.name, slot.shape);
  }
  for (std::size_t i = first; i < last; ++i) {
    part.layers.push_back(shifted(plan.layers[i], begin));
  }
  for (const std::size_t weight : plan.residual_weights) {
    if (weight >= begin && weight < end) part.residual_weights.push_back(weight - begin);
  }
  return part;
}

}  // namespace gv
