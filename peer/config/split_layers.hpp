// The layers of a model, as input to the search for a way to share them.
#pragma once

#include <cstddef>
#include <vector>

#include "consensus/split/layer_costs.hpp"
#include "train/spec.hpp"

namespace gv {

/// Layers [first, end) of a model that are shared as one piece: a layer with parameters, and the
/// layers without parameters that follow it. The first piece may also begin with layers without
/// parameters.
struct ModelPiece {
  std::size_t first = 0;
  std::size_t end = 0;
  SplitLayer costs;
};

/// The pieces of a valid model, with costs from its shapes. Layers can be cut as follows:
///
///   dense                      by model: its outputs; or samples whose gradients travel as factors
///   conv2d, with pools         by model: its channels; or rows of the image
///   attention, alone or in a residual layer with norms: by model: its heads
///   two dense layers in a residual layer, with activations between them: by model, as a pair
///   embedding                  by model: its vocabulary
///
/// Every layer can also be cut by samples. If the last layer is dense and the loss is a
/// cross-entropy, the loss is assumed to be computed in parts, without gathering the layer's
/// outputs.
std::vector<ModelPiece> model_pieces(const ModelSpec& model, const SampleShape& input);

}  // namespace gv
