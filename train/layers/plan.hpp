// A model description resolved for one input shape: every layer's shapes and parameter tensors.
#pragma once

#include <cstddef>
#include <vector>

#include "base/problems.hpp"
#include "train/learner/layout.hpp"
#include "train/spec.hpp"

namespace gv {

/// Number of elements of one sample.
constexpr std::size_t elements(const SampleShape& shape) { return shape[0] * shape[1] * shape[2]; }

/// One layer with its shapes. Parameters are found in the flat vector at the offsets given.
struct LayerPlan {
  LayerSpec spec;     ///< With `stride` resolved.
  SampleShape in{};   ///< (C, H, W)
  SampleShape out{};  ///< (C, H, W)
  /// Its tensors are [begin, end) of the flat vector, together and in the order of the layers; in a
  /// layer without parameters both say where they would be.
  std::size_t begin = 0;
  std::size_t end = 0;
  /// Offset of the weights: dense (out, in), conv2d (out, in, k, k), gains, embedding (tokens,
  /// width), attention (3 width, width). They are the embedding's if the layer is tied to it.
  std::size_t weight = 0;
  /// Offset of the biases (units, or one for each gain); embedding: of (positions, width).
  std::size_t bias = 0;
  std::size_t rows = 1;  ///< dense, layer_norm: rows of a sample that each are an input to it.
  /// embedding: a later layer uses its table too. That one comes first in backward and overwrites
  /// the gradient; the embedding adds to it.
  bool is_shared = false;
  std::vector<LayerPlan> layers;  ///< residual: the layers inside it.

  bool has_parameters() const { return end > begin; }
};

/// Where the four tensors of an attention layer lie.
struct AttentionOffsets {
  std::size_t qkv_weight = 0;  ///< (3 width, width): queries, then keys, then values.
  std::size_t qkv_bias = 0;    ///< (3 width)
  std::size_t out_weight = 0;  ///< (width, width)
  std::size_t out_bias = 0;    ///< (width)
};
AttentionOffsets attention_offsets(const LayerPlan& plan);

/// All layers and the layout of their parameters.
struct ModelPlan {
  std::vector<LayerPlan> layers;
  Layout layout;
  SampleShape in{};
  std::size_t outputs = 0;
  /// Offsets of the weights whose products residual layers add to their inputs.
  std::vector<std::size_t> residual_weights;
};

/// Resolves `spec` and appends everything wrong to `problems` (places are "layers[3]"). The plan
/// may be used only if nothing was wrong.
ModelPlan plan_model(const ModelSpec& spec, const SampleShape& input, Problems& problems);

/// Whether a pipeline may be cut before layer `at`: not between layers that share a table.
bool may_cut(const ModelPlan& plan, std::size_t at);

/// The layers [first, last) as a plan of their own: one stage of a pipeline. Its flat vector begins
/// at 0 and is a piece of the whole one, from where layer `first` begins in it; its tensors keep
/// their names. Networks of slices, one after the other, compute what the whole network does. It
/// may be cut at both ends.
ModelPlan slice(const ModelPlan& plan, std::size_t first, std::size_t last);

}  // namespace gv
