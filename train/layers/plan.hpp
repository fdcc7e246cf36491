// A model description resolved for one input shape: the shapes and parameter tensors of every
// layer.
#pragma once

#include <cstddef>
#include <vector>

#include "base/problems.hpp"
#include "base/range.hpp"
#include "train/learner/layout.hpp"
#include "train/spec.hpp"

namespace gv {

/// Number of elements of one sample.
constexpr std::size_t elements(const SampleShape& shape) { return shape[0] * shape[1] * shape[2]; }

/// One layer with its shapes. Offsets refer to the model's flat parameter vector.
struct LayerPlan {
  /// The layer's description, with `stride` and `convolution` resolved.
  LayerSpec spec;
  SampleShape in{};   ///< (C, H, W)
  SampleShape out{};  ///< (C, H, W)
  /// The layer's tensors are [begin, end) of the flat vector. A layer without parameters has begin
  /// = end.
  std::size_t begin = 0;
  std::size_t end = 0;
  /// Offset of the weights: dense (out, in), conv2d (out, in, k, k), gains, embedding (tokens,
  /// width), attention (3 width, width), lstm (4 units, width), sums of clusters (units, in). A
  /// tied layer has the offset of the embedding's table.
  std::size_t weight = 0;
  /// Offset of the biases (units, or one for each gain). For an embedding: of its positions
  /// (positions, width). For clusters: of their counts (units). For an lstm: of the biases of its
  /// gates (4 units); the weights that act on its state (4 units, units) come before them. For a
  /// batch norm: also of the means and the mean squares that follow the biases.
  std::size_t bias = 0;
  Precision precision = Precision::float32;  ///< Only for dense and conv2d.
  /// dense, layer_norm: number of rows in a sample. Each row is a separate input.
  std::size_t rows = 1;
  /// dense: true if it is the model's last layer, and only a cross-entropy reads its outputs.
  bool gives_logits = false;
  /// embedding: true if a later layer also uses its table. That layer comes first in the backward
  /// pass and overwrites the gradient; the embedding then adds to it.
  bool is_shared = false;
  std::vector<LayerPlan> layers;  ///< residual, stack, concat: the layers inside it.
  /// residual: the layers of the shortcut, whose tensors come after those of `layers`. If empty,
  /// the shortcut adds the input itself.
  std::vector<LayerPlan> shortcut;

  bool has_parameters() const { return end > begin; }
};

/// Offsets of the four tensors of an attention layer.
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
  WeightValues weights = WeightValues::floats;  ///< Must be `floats` if groups share the model.
  /// Offsets of the weights whose output a residual layer adds to its input.
  std::vector<std::size_t> residual_weights;
};

/// Resolves `spec` and appends everything wrong to `problems`, with places such as "layers[3]". The
/// plan may be used only if nothing was wrong.
ModelPlan plan_model(const ModelSpec& spec, const SampleShape& input, Problems& problems);

/// True if a pipeline may be cut before layer `at`. It may not be cut between layers that share a
/// table.
bool may_cut(const ModelPlan& plan, std::size_t at);

/// The running statistics of batch norms in the flat vector, ascending. They are not trained
/// parameters: in place of their gradient, the layer writes their difference from the batch's
/// statistics, and the optimiser subtracts a tenth of it. So the statistics are averaged wherever
/// gradients or models are averaged.
std::vector<Range> statistics_of(const ModelPlan& plan);

/// The layers [first, last) as a separate plan: one stage of a pipeline. Its flat vector begins at
/// 0 and is the piece of the whole vector that starts at layer `first`; its tensors keep their
/// names. Networks of consecutive slices together compute the same as the whole network. The plan
/// must allow a cut at both ends.
ModelPlan slice(const ModelPlan& plan, std::size_t first, std::size_t last);

}  // namespace gv
